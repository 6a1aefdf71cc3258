"""The faults that inject_faults.py injects into the CUDA backend: location, description, and tests that should detect it.

`text` occurs `of` times in the file (default 1); the `nth` occurrence gets the fault. `fault` replaces `text`: an
expression for an expression, statements for a statement ("" removes it). If `fault` contains INJECTED, it replaces the
text unconditionally, and INJECTED is true while the fault is on. A test is a program, optionally with a GoogleTest
filter. `unseen`: why no build is expected to detect the fault.
"""

import dataclasses


@dataclasses.dataclass
class Fault:
    family: str
    name: str
    what: str
    file: str
    text: str
    fault: str
    tests: list
    nth: int = 1
    of: int = 1
    unseen: str = ""


# ThreadSanitizer supports 8,192 threads at once. These programs launch more, or do not test threads.
NOT_FOR_TSAN = {"attention_ops_test", "conv_ops_test", "matmul_ops_test", "pipeline_test", "step_graphs_test"}
OPS = "engine/ops/cuda/"
BARRIER = "__syncthreads();"
ROW_NORM = ["row_norm_test"]
ROTATION = ["qk_norm_rope_test"]
SPLIT = ["split_attention_test"]
REDUCTIONS = ["reductions_test"]
ATTENTION = ["attention_ops_test *cuda*"]
FORMS = ["matmul_ops_test *cuda*"]
PRODUCTS = ["cuda_products_test -*MoreRows*"]
WEIGHTS = ["cuda_weights_test *AreRewritten*:*RowsAreRead*"]
CONVS = ["conv_ops_test */ConvOps.*cuda"]
STREAM = ["cuda_stream_test"]
NEIGHBOURS = ["neighbourhood_attention_test"]
TILES = "kernels/neighbourhood_tiles.cu"

FAULTS = [
    # ---- Kernels
    Fault("Kernels", "barrier-of-a-block-sum", "the barrier before a block's partial sums are read is missing",
          "kernels/device/reduce.h", BARRIER, "", ROW_NORM, nth=1, of=2),
    Fault("Kernels", "warp-sum-too-narrow", "a warp reduction starts with an offset of 8 and omits half of the lanes",
          "kernels/device/reduce.h", "kWarpLanes / 2", "kWarpLanes / 4", ROW_NORM, nth=1, of=2),
    Fault("Kernels", "block-sum-without-last-warp", "a block reduction omits the last warp", "kernels/device/reduce.h",
          "lane < static_cast<int>(blockDim.x) / kWarpLanes ? partial[lane] : T{}",
          "lane < static_cast<int>(blockDim.x) / kWarpLanes - 1 ? partial[lane] : T{}", ROW_NORM),
    Fault("Kernels", "two-reductions-one-memory", "two maximum reductions share memory without a barrier between them",
          "kernels/reductions.cu", "  maximum = BlockMax<1>(maximum);", "maximum = BlockMax<0>(maximum);", REDUCTIONS),
    Fault("Kernels", "row-bound", "a thread past the end of a row reads eight more elements", "kernels/row_norm.cu",
          "Column(n) >= a.width", "Column(n) > a.width", ROW_NORM, nth=1, of=3),
    Fault("Kernels", "row-bound-of-the-output", "a thread past the end of a row writes eight more elements",
          "kernels/row_norm.cu", "Column(n) >= a.width", "Column(n) > a.width", ROW_NORM, nth=3, of=3),
    Fault("Kernels", "modulation-row-without-modulo", "the passes of a batch do not share the modulation rows",
          "kernels/row_norm.cu", "row % m.tokens", "row", ROW_NORM),
    Fault("Kernels", "vectors-though-misaligned", "vector loads are used for a misaligned table", "kernels/row_norm.cu",
          "reinterpret_cast<uintptr_t>(table) % 16 == 0", "reinterpret_cast<uintptr_t>(table) % 4 == 0", ROW_NORM),
    Fault("Kernels", "sum-in-bf16", "the sum of a row is accumulated in the row's type", "kernels/row_norm.cu",
          "total += term(kept[n][j]);", "total = RoundTo(static_cast<const X*>(nullptr), total + term(kept[n][j]));",
          ROW_NORM),
    Fault("Kernels", "rounded-twice", "gate · y is rounded before it is added", "kernels/row_norm.cu", "gate[j] * y[j]",
          "RoundTo(x, gate[j] * y[j])", ROW_NORM),
    Fault("Kernels", "early-launch-without-wait", "a kernel launched early does not wait for the previous kernel",
          "kernels/row_norm.cu", "WaitForPrevious();", "", ROW_NORM, nth=1, of=2),
    Fault("Kernels", "barrier-between-rows", "a block's next row overwrites a sum that other warps still read",
          "kernels/qk_norm_rope.cu", "__syncthreads();", "", ROTATION, nth=1, of=2),
    Fault("Kernels", "head-sum-too-wide", "the reduction of a head covers two heads", "kernels/qk_norm_rope.cu",
          "static_cast<int>(a.head_width) / kPair", "static_cast<int>(a.head_width) / kVector", ROTATION),
    Fault("Kernels", "table-row-without-modulo", "the passes of a batch do not share the rotation tables' rows",
          "kernels/qk_norm_rope.cu", "row % a.table_rows * a.table_width", "row * a.table_width", ROTATION),
    Fault("Kernels", "softmax-one-row-more", "a warp processes a row past the last one", "kernels/softmax.cu",
          "index >= a.matrices * a.rows", "index > a.matrices * a.rows", ["softmax_test"]),
    Fault("Kernels", "interleaved-channels-without-barrier", "channels are read before the block has written them",
          "kernels/upscale.cu", BARRIER, "", ["upscale_test"]),
    Fault("Kernels", "snake-last-barrier", "results are filtered before the edges are replicated", "kernels/snake.cu",
          BARRIER, "", ["sound_test"], nth=3, of=3),
    Fault("Kernels", "copy-ignores-the-stride", "rows are written contiguously into a strided view",
          "kernels/copy_rows.cu", "row * to.stride", "row * width", STREAM),
    Fault("Kernels", "step-not-counted", "the step counter is not incremented", "kernels/increment.cu",
          "++counters[threadIdx.x];", "", ["rotation_ops_test *Counters*"]),
    Fault("Kernels", "stage-of-cells-without-barrier", "a stage of cells is read before all warps have loaded it", TILES,
          BARRIER, "", NEIGHBOURS, nth=2, of=3),
    Fault("Kernels", "sums-over-cells", "a warp's sums go to shared memory while others still read cells there", TILES,
          BARRIER, "", NEIGHBOURS, nth=3, of=3),
    Fault("Kernels", "cells-not-awaited", "cells are read before their copies have ended", TILES, "WaitCopies<0>();", "",
          NEIGHBOURS, nth=2, of=2),
    Fault("Kernels", "key-beyond-the-grid", "a cell at the end of the grid loads a key behind it", TILES,
          "time + KeyTime() < end", "time + KeyTime() <= end", NEIGHBOURS),
    Fault("Kernels", "window-too-wide", "a query sees one key too many on an axis", TILES,
          "static_cast<unsigned>(window)", "static_cast<unsigned>(window) + 1", NEIGHBOURS),
    Fault("Kernels", "denominator-of-the-old-maximum", "a new maximum scales the sums but not the denominator", TILES,
          "half.denominator[row] *= shrink;", "", NEIGHBOURS),
    # ---- Launch configuration
    Fault("Launch configuration", "grid-too-small", "the grid lacks the threads of its last block", "kernels/im2col.cu",
          "(threads + kThreads - 1) / kThreads", "(threads + kThreads - 2) / kThreads", ["im2col_test"]),
    Fault("Launch configuration", "half-a-warp", "the block size is not a multiple of the warp size",
          "kernels/row_norm.cu", "(vectors + kWarpLanes - 1) / kWarpLanes * kWarpLanes", "vectors", ROW_NORM),
    Fault("Launch configuration", "too-little-shared-memory", "dynamic shared memory is 64 bytes too small",
          "kernels/split_attention.cu", "LayOut<Shape>(a.width).bytes", "LayOut<Shape>(a.width).bytes - 64", SPLIT),
    # ---- Attention
    Fault("Attention", "barrier-before-a-tile", "a tile is used before the whole block has loaded it",
          "kernels/split_attention.cu", BARRIER, "", SPLIT, nth=1, of=2),
    Fault("Attention", "barrier-after-a-tile", "a tile is overwritten while other warps still use it",
          "kernels/split_attention.cu", BARRIER, "", SPLIT, nth=2, of=2),
    Fault("Attention", "missing-copy-wait", "a tile is used before its asynchronous copies complete",
          "kernels/split_attention.cu", "WaitCopies<1>();", "WaitCopies<2>();", SPLIT),
    Fault("Attention", "one-key-too-many", "a tile includes a key past the last one, with weight zero",
          "kernels/split_attention.cu", "key + row >= w.end", "key + row > w.end", SPLIT),
    Fault("Attention", "window-off-by-one", "a query attends to one key more than its window",
          "kernels/split_attention.cu", "query - key < a.window", "query - key <= a.window", SPLIT),
    Fault("Attention", "softmax-window-off-by-one", "the same in the softmax kernel between products",
          "kernels/softmax.cu", "query - a.window + 1", "query - a.window", ["softmax_test"]),
    Fault("Attention", "batches-by-number", "a batch reads the keys of its own index instead of its mapped index",
          "kernels/split_attention.cu", "a.kv_batch >> (8 * batch) & 255u", "static_cast<uint64_t>(batch)", SPLIT),
    Fault("Attention", "chunks-in-another-order", "values are merged with the weight of another chunk",
          "kernels/split_attention.cu", "first[c * between + column]", "first[(a.count - 1 - c) * between + column]",
          SPLIT),
    Fault("Attention", "key-length-ignored", "a plan covers all keys instead of the valid ones",
          OPS + "cudnn_calls.cc", ".keys = e.key_end", ".keys = INJECTED ? e.keys : e.key_end", ATTENTION),
    Fault("Attention", "cudnn-batches-by-number", "a call starts at the keys of the batch's own index",
          OPS + "cuda_attention.cc", "options.kv_batch[run.first] * e.keys", "std::min(run.first, 1) * e.keys",
          ATTENTION),
    Fault("Attention", "scale-forgotten", "a plan omits the scale of the logits", OPS + "cudnn_calls.cc",
          ".scale = o.scale", ".scale = INJECTED ? 1.0f : o.scale", ATTENTION),
    # ---- Matrix products
    Fault("Matrix products", "leading-dimension", "a weight's rows are assumed to be contiguous", OPS + "cublaslt.cc",
          "p.b_stride, p.batch, p.b_batch, &left", "INJECTED ? b_columns : p.b_stride, p.batch, p.b_batch, &left",
          FORMS),
    Fault("Matrix products", "transposed-flag", "one matrix gets the transpose flag of the other", OPS + "cublaslt.cc",
          "operation(p.b_transposed)", "operation(p.a_transposed)", FORMS),
    Fault("Matrix products", "bias-dtype", "a bf16 bias is declared as float32", OPS + "cublaslt.cc", "DataType(p.out)",
          "DataType(INJECTED ? DType::kF32 : p.out)", PRODUCTS),
    Fault("Matrix products", "beta", "a product that should accumulate overwrites its output", OPS + "cublaslt.cc",
          "p.add ? 1.0f : 0.0f", "0.0f", FORMS),
    Fault("Matrix products", "batch-stride", "one operand's matrices use the batch stride of the other",
          OPS + "cublaslt.cc", "p.batch > 1 ? p.b.batch_stride : 0", "p.batch > 1 ? p.a.batch_stride : 0", PRODUCTS),
    Fault("Matrix products", "workspace-too-small", "algorithms may use four times the available workspace",
          OPS + "cublaslt.cc", "static_cast<uint64_t>(workspace_bytes)", "static_cast<uint64_t>(4 * workspace_bytes)",
          PRODUCTS,
          unseen="the simulated library's first algorithm needs no workspace, and tuning skips the algorithms that "
          "the library rejects"),
    Fault("Matrix products", "alignment-promised", "a misaligned matrix is declared as aligned", OPS + "cublaslt.cc",
          "Attribute::kMinAlignmentB, p.a_alignment", "Attribute::kMinAlignmentB, INJECTED ? 16u : p.a_alignment",
          FORMS),
    Fault("Matrix products", "epilogue-without-bias", "a product with GELU omits its bias", OPS + "cublaslt.cc",
          "p.bias ? static_cast<uint32_t>(cublaslt::Epilogue::kBias) : 0",
          "p.bias && !p.gelu ? static_cast<uint32_t>(cublaslt::Epilogue::kBias) : 0", FORMS),
    # ---- Convolutions
    Fault("Convolutions", "padding-exchanged", "the padding before and after an axis are exchanged",
          OPS + "cuda_conv.cc", ".before = axis.before", ".before = INJECTED ? axis.after : axis.before", CONVS, nth=1,
          of=2),
    Fault("Convolutions", "copied-padding-exchanged", "the same where frames are copied with their padding",
          OPS + "cuda_conv.cc", ".before = axis.before", ".before = INJECTED ? axis.after : axis.before", CONVS, nth=2,
          of=2),
    Fault("Convolutions", "replicate-as-zeros", "replicate padding is zero padding", "kernels/im2col.cu",
          "return at < 0 ? 0 : axis.extent - 1;", "return kOutside;", ["im2col_test"]),
    Fault("Convolutions", "run-boundary", "the first result that needs no temporal padding is one too early",
          OPS + "conv_runs.cc", "(time.before + time.stride - 1) / time.stride", "time.before / time.stride - 1",
          CONVS),
    # ---- Streams and staging
    Fault("Streams", "half-of-the-ring-not-awaited",
          "CopyStaged does not wait for the copies that read a half of the ring", OPS + "cuda_stream.cc",
          "cudaEventSynchronize(staging_.left[staging_.half])", "cudaSuccess", STREAM),
    Fault("Streams", "half-of-the-ring-reused", "CopyStaged records no event for a half of the ring",
          OPS + "cuda_stream.cc", "cudaEventRecord(staging_.left[staging_.half], stream_)", "cudaSuccess", STREAM),
    Fault("Streams", "synchronise-does-not-wait", "Synchronize returns immediately", OPS + "cuda_stream.cc",
          "const cudaError_t error = cudaStreamSynchronize(stream_)",
          "const cudaError_t error = INJECTED ? cudaSuccess : cudaStreamSynchronize(stream_)", STREAM),
    Fault("Streams", "another-mark", "WaitFor checks the mark before the requested one", OPS + "cuda_stream.cc",
          "cudaEventQuery(marks_[mark % kMarks])", "cudaEventQuery(marks_[(mark + kMarks - 1) % kMarks])", STREAM),
    # ---- Graphs
    Fault("Graphs", "host-value-in-a-capture", "every step reads the noise level of the captured step",
          "engine/pipeline/denoiser.cc", "exec.ops.GatherRows(sigmas_, step, 1.0f, ",
          "INJECTED ? exec.ops.stream().Copy(sigmas_.Rows(0, 1), predicted_.sigma.Reshape({1, sigmas_.width()})) : "
          "exec.ops.GatherRows(sigmas_, step, 1.0f, ", ["pipeline_test *distilled_cpu"]),
    Fault("Graphs", "captured-without-an-address", "a graph is replayed although its memory has moved",
          "engine/pipeline/step_graphs.cc", "found->addresses != addresses", "false", ["step_graphs_test *Addresses*"]),
    # ---- Weights and memory
    Fault("Weights", "rows-without-padding", "rows of weights are contiguous and not aligned", OPS + "cuda_weights.cc",
          "(row + kWeightRowAlignment - 1) / kWeightRowAlignment * kWeightRowAlignment / DTypeSize(dtype)", "width",
          WEIGHTS),
    Fault("Weights", "pinned-rows-not-awaited", "rows are read into pinned memory that copies still read",
          OPS + "cuda_weights.cc", "cudaEventSynchronize(staging.left)", "cudaSuccess", WEIGHTS),
    Fault("Weights", "rewritten-without-wait", "a rewrite returns before its copies complete", OPS + "cuda_weights.cc",
          "absl::Status done = stream_->Synchronize();",
          "absl::Status done = INJECTED ? absl::OkStatus() : stream_->Synchronize();", WEIGHTS),
    Fault("Weights", "one-landing-for-all", "threads share the device memory that holds rows before conversion",
          OPS + "cuda_weights.cc", "thread * landing_each", "int64_t{0}", WEIGHTS,
          unseen="wrong only if one thread's copy runs between another's copy and kernel; the operating system "
          "schedules the host threads, not a seed"),
    Fault("Weights", "first-factors-again", "parts of a LoRA's depth after the first use the first part's columns",
          OPS + "cuda_weights.cc", "static_cast<char*>(up_.raw()) + depth * size", "static_cast<char*>(up_.raw())",
          ["cuda_loras_test *DoNotFit*"]),
    Fault("Weights", "sums-not-checked", "a LoRA that makes weights infinite is accepted", OPS + "cuda_weights.cc",
          ".bad_row = bad_row}", ".bad_row = INJECTED ? nullptr : bad_row}", ["cuda_loras_test *NotFinite*"]),
    Fault("Memory", "scratch-pieces-overlap", "an op's allocations in scratch memory overlap", OPS + "cuda_memory.cc",
          "used_ += padded;", "", ["matmul_ops_test *cuda*", "attention_ops_test *cuda*"]),
    Fault("Memory", "scratch-too-small", "scratch memory has half its size", OPS + "cuda_ops.cc",
          "AllocateOnDevice(kScratchBytes", "AllocateOnDevice(INJECTED ? kScratchBytes / 2 : kScratchBytes",
          ["conv_ops_test *LongConvs*cuda"]),
    Fault("Memory", "allocation-too-short", "an allocation is 16 bytes too small", OPS + "cuda_memory.cc",
          "std::max<int64_t>(1, bytes)", "std::max<int64_t>(1, bytes - 16)", WEIGHTS),
    Fault("Memory", "freed-in-use", "a stream frees its pinned memory while copies still read it",
          OPS + "cuda_stream.cc", "if (stream_ != nullptr) cudaStreamSynchronize(stream_);", "", STREAM,
          unseen="cudaFreeHost itself waits for the device, simulated and real"),
]
