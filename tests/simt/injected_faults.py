"""The faults that inject_faults.py puts into the CUDA backend: where, what is wrong, and the tests that should see it.

`text` is `of` times in the file (once) and the `nth` of them gets the fault. `fault` is an expression in place of an
expression, statements in place of a statement ("": it is left out), or, where it contains INJECTED, the whole text, in
which INJECTED is whether the fault is on. Tests are programs, with a filter of GoogleTest where only a part is meant.
`unseen`: why no build is expected to see it.
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


# ThreadSanitizer knows 8,192 threads at once; what these programs launch has more, or they are not about threads.
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

FAULTS = [
    # ---- Kernels
    Fault("Kernels", "barrier-of-a-block-sum", "the barrier before a block's partial sums are read is missing",
          "kernels/device/reduce.h", BARRIER, "", ROW_NORM, nth=1, of=2),
    Fault("Kernels", "warp-sum-too-narrow", "a warp's sum begins with a step of 8: half of the lanes",
          "kernels/device/reduce.h", "kWarpLanes / 2", "kWarpLanes / 4", ROW_NORM, nth=1, of=2),
    Fault("Kernels", "block-sum-without-last-warp", "a block's sum leaves out the last warp", "kernels/device/reduce.h",
          "lane < static_cast<int>(blockDim.x) / kWarpLanes ? partial[lane] : T{}",
          "lane < static_cast<int>(blockDim.x) / kWarpLanes - 1 ? partial[lane] : T{}", ROW_NORM),
    Fault("Kernels", "two-reductions-one-memory", "two maxima share their memory with no barrier between them",
          "kernels/reductions.cu", "  maximum = BlockMax<1>(maximum);", "maximum = BlockMax<0>(maximum);", REDUCTIONS),
    Fault("Kernels", "row-bound", "a thread behind the row's end reads eight elements more", "kernels/row_norm.cu",
          "column(n) >= a.width", "column(n) > a.width", ROW_NORM, nth=1, of=3),
    Fault("Kernels", "row-bound-of-the-output", "a thread behind the row's end writes eight elements more",
          "kernels/row_norm.cu", "column(n) >= a.width", "column(n) > a.width", ROW_NORM, nth=3, of=3),
    Fault("Kernels", "modulation-row-without-modulo", "passes of a batch do not share the rows' numbers",
          "kernels/row_norm.cu", "row % m.tokens", "row", ROW_NORM),
    Fault("Kernels", "vectors-though-misaligned", "vectors are taken though a table is not aligned",
          "kernels/row_norm.cu", "reinterpret_cast<uintptr_t>(table) % 16 == 0",
          "reinterpret_cast<uintptr_t>(table) % 4 == 0", ROW_NORM),
    Fault("Kernels", "sum-in-bf16", "a row's sum is kept in the row's type", "kernels/row_norm.cu",
          "total += term(kept[n][j]);", "total = RoundTo(x, total + term(kept[n][j]));", ROW_NORM),
    Fault("Kernels", "rounded-twice", "gate times y is rounded before it is added", "kernels/row_norm.cu",
          "gate[j] * y[j]", "RoundTo(x, gate[j] * y[j])", ROW_NORM),
    Fault("Kernels", "early-launch-without-wait", "a kernel that starts early does not wait for the one before",
          "kernels/row_norm.cu", "WaitForPrevious();", "", ROW_NORM, nth=1, of=2),
    Fault("Kernels", "barrier-between-rows", "a block's next row overwrites the sum that other warps still read",
          "kernels/qk_norm_rope.cu", "__syncthreads();", "", ROTATION, nth=1, of=2),
    Fault("Kernels", "head-sum-too-wide", "a head's sum is that of two heads", "kernels/qk_norm_rope.cu",
          "static_cast<int>(a.head_width) / kPair", "static_cast<int>(a.head_width) / kVector", ROTATION),
    Fault("Kernels", "table-row-without-modulo", "passes of a batch do not share the tables' rows",
          "kernels/qk_norm_rope.cu", "row % a.table_rows * a.table_width", "row * a.table_width", ROTATION),
    Fault("Kernels", "softmax-one-row-more", "a warp takes the row behind the last one", "kernels/softmax.cu",
          "index >= a.matrices * a.rows", "index > a.matrices * a.rows", ["softmax_test"]),
    Fault("Kernels", "interleaved-channels-without-barrier", "channels are read before their block has written them",
          "kernels/upscale.cu", BARRIER, "", ["upscale_test"]),
    Fault("Kernels", "snake-last-barrier", "results are filtered before the edges are repeated", "kernels/snake.cu",
          BARRIER, "", ["sound_test"], nth=3, of=3),
    Fault("Kernels", "copy-ignores-the-stride", "rows are written side by side into a view whose rows lie apart",
          "kernels/copy_rows.cu", "row * to.stride", "row * width", STREAM),
    Fault("Kernels", "step-not-counted", "the step counter stays where it is", "kernels/increment.cu",
          "++counters[threadIdx.x];", "", ["rotation_ops_test *Counters*"]),
    # ---- Launch shapes
    Fault("Launch shapes", "grid-too-small", "threads of the last block are missing", "kernels/im2col.cu",
          "(threads + kThreads - 1) / kThreads", "(threads + kThreads - 2) / kThreads", ["im2col_test"]),
    Fault("Launch shapes", "half-a-warp", "a block's threads are not whole warps", "kernels/row_norm.cu",
          "(vectors + kWarpLanes - 1) / kWarpLanes * kWarpLanes", "vectors", ROW_NORM),
    Fault("Launch shapes", "too-little-shared-memory", "64 bytes of dynamic shared memory too few",
          "kernels/split_attention.cu", "LayOut<Shape>(a.width).bytes", "LayOut<Shape>(a.width).bytes - 64", SPLIT),
    # ---- Attention
    Fault("Attention", "barrier-before-a-tile", "a tile is used before the whole block has it",
          "kernels/split_attention.cu", BARRIER, "", SPLIT, nth=1, of=2),
    Fault("Attention", "barrier-after-a-tile", "a tile is overwritten while other warps still use it",
          "kernels/split_attention.cu", BARRIER, "", SPLIT, nth=2, of=2),
    Fault("Attention", "missing-copy-wait", "a tile is used before its asynchronous copies are done",
          "kernels/split_attention.cu", "WaitCopies<1>();", "WaitCopies<2>();", SPLIT),
    Fault("Attention", "one-key-too-many", "a tile holds the key behind the last one, whose weight is zero",
          "kernels/split_attention.cu", "key + row >= w.end", "key + row > w.end", SPLIT),
    Fault("Attention", "window-off-by-one", "a query sees one key more than its window",
          "kernels/split_attention.cu", "query - key < a.window", "query - key <= a.window", SPLIT),
    Fault("Attention", "softmax-window-off-by-one", "the same in the softmax between products", "kernels/softmax.cu",
          "query - a.window + 1", "query - a.window", ["softmax_test"]),
    Fault("Attention", "batches-by-number", "a batch reads the keys of its number, not those of its map",
          "kernels/split_attention.cu", "a.kv_batch >> (8 * batch) & 255u", "static_cast<uint64_t>(batch)", SPLIT),
    Fault("Attention", "chunks-in-another-order", "values are merged with another chunk's weight",
          "kernels/split_attention.cu", "first[c * between + column]", "first[(a.count - 1 - c) * between + column]",
          SPLIT),
    Fault("Attention", "key-length-ignored", "a plan is made for all keys, not for those that count",
          OPS + "cuda_attention.cc", ".keys = e.key_end", ".keys = INJECTED ? e.keys : e.key_end", ATTENTION),
    Fault("Attention", "cudnn-batches-by-number", "a call begins at the keys of the batch's number",
          OPS + "cuda_attention.cc", "options.kv_batch[run.first] * e.keys", "std::min(run.first, 1) * e.keys",
          ATTENTION),
    Fault("Attention", "scale-forgotten", "a plan is made without the scale of logits", OPS + "cuda_attention.cc",
          ".scale = o.scale", ".scale = INJECTED ? 1.0f : o.scale", ATTENTION),
    # ---- Products
    Fault("Products", "leading-dimension", "a weight's rows are taken to lie side by side", OPS + "cublaslt.cc",
          "p.b_stride, p.batch, p.b_batch, &left", "INJECTED ? b_columns : p.b_stride, p.batch, p.b_batch, &left",
          FORMS),
    Fault("Products", "transposed-flag", "the flag of one matrix is given to the other", OPS + "cublaslt.cc",
          "operation(p.b_transposed)", "operation(p.a_transposed)", FORMS),
    Fault("Products", "bias-dtype", "a bias is said to be float32 where it is bf16", OPS + "cublaslt.cc",
          "DataType(p.out)", "DataType(INJECTED ? DType::kF32 : p.out)", PRODUCTS),
    Fault("Products", "beta", "a product that should add overwrites", OPS + "cublaslt.cc", "p.add ? 1.0f : 0.0f",
          "0.0f", FORMS),
    Fault("Products", "batch-stride", "matrices of a batch are taken to lie as far apart as those of the other operand",
          OPS + "cublaslt.cc", "p.batch > 1 ? p.b.batch_stride : 0", "p.batch > 1 ? p.a.batch_stride : 0", PRODUCTS),
    Fault("Products", "workspace-too-small", "algorithms may use four times the workspace that there is",
          OPS + "cublaslt.cc", "static_cast<uint64_t>(workspace_bytes)", "static_cast<uint64_t>(4 * workspace_bytes)",
          PRODUCTS,
          unseen="the simulated library's first algorithm needs no workspace, and those that it refuses are passed "
          "over when products are measured"),
    Fault("Products", "alignment-promised", "the library is told that a matrix is aligned though it is not",
          OPS + "cublaslt.cc", "Attribute::kMinAlignmentB, p.a_alignment",
          "Attribute::kMinAlignmentB, INJECTED ? 16u : p.a_alignment", FORMS),
    Fault("Products", "epilogue-without-bias", "a product with GELU leaves its bias out", OPS + "cublaslt.cc",
          "p.bias ? static_cast<uint32_t>(cublaslt::Epilogue::kBias) : 0",
          "p.bias && !p.gelu ? static_cast<uint32_t>(cublaslt::Epilogue::kBias) : 0", FORMS),
    # ---- Convolutions
    Fault("Convolutions", "padding-exchanged", "padding before and after an axis are exchanged", OPS + "cuda_conv.cc",
          ".before = axis.before", ".before = INJECTED ? axis.after : axis.before", CONVS, nth=1, of=2),
    Fault("Convolutions", "copied-padding-exchanged", "the same where frames are copied with their padding",
          OPS + "cuda_conv.cc", ".before = axis.before", ".before = INJECTED ? axis.after : axis.before", CONVS, nth=2,
          of=2),
    Fault("Convolutions", "replicate-as-zeros", "replicated edges are zeros", "kernels/im2col.cu",
          "return at < 0 ? 0 : axis.extent - 1;", "return kOutside;", ["im2col_test"]),
    Fault("Convolutions", "run-boundary", "the first result that needs no padding in time is one too early",
          OPS + "cuda_conv.cc", "(time.before + time.stride - 1) / time.stride", "time.before / time.stride - 1",
          CONVS),
    # ---- Streams and staging
    Fault("Streams", "half-of-the-ring-not-awaited", "CopyStaged does not wait for the copies that leave a half",
          OPS + "cuda_stream.cc", "cudaEventSynchronize(staging_.left[staging_.half])", "cudaSuccess", STREAM),
    Fault("Streams", "half-of-the-ring-reused", "CopyStaged leaves a half of the ring without an event",
          OPS + "cuda_stream.cc", "cudaEventRecord(staging_.left[staging_.half], stream_)", "cudaSuccess", STREAM),
    Fault("Streams", "synchronise-does-not-wait", "Synchronize returns at once", OPS + "cuda_stream.cc",
          "const cudaError_t error = cudaStreamSynchronize(stream_)",
          "const cudaError_t error = INJECTED ? cudaSuccess : cudaStreamSynchronize(stream_)", STREAM),
    Fault("Streams", "another-mark", "WaitFor looks at the mark before the one that is meant", OPS + "cuda_stream.cc",
          "cudaEventQuery(marks_[mark % kMarks])", "cudaEventQuery(marks_[(mark + kMarks - 1) % kMarks])", STREAM),
    # ---- Graphs
    Fault("Graphs", "host-value-in-a-capture", "each step reads the noise level of the step that was captured",
          "engine/pipeline/denoiser.cc", "exec.ops.GatherRows(sigmas_, step, 1.0f, sigma_);",
          "exec.ops.stream().Copy(sigmas_.Rows(0, 1), sigma_);", ["pipeline_test *distilled_cpu"]),
    Fault("Graphs", "captured-without-an-address", "a graph is replayed though its memory lies elsewhere",
          "engine/pipeline/step_graphs.cc", "found->addresses == addresses", "true", ["step_graphs_test *Addresses*"]),
    # ---- Weights and memory
    Fault("Weights", "rows-without-padding", "rows of weights lie side by side, not aligned", OPS + "cuda_weights.cc",
          "(row + kWeightRowAlignment - 1) / kWeightRowAlignment * kWeightRowAlignment / DTypeSize(dtype)", "width",
          WEIGHTS),
    Fault("Weights", "pinned-rows-not-awaited", "rows are read into pinned memory that copies still leave",
          OPS + "cuda_weights.cc", "cudaEventSynchronize(staging.left)", "cudaSuccess", WEIGHTS),
    Fault("Weights", "rewritten-without-wait", "a rewrite returns while its copies are still to come",
          OPS + "cuda_weights.cc", "const absl::Status done = stream_->Synchronize();",
          "const absl::Status done = INJECTED ? absl::OkStatus() : stream_->Synchronize();", WEIGHTS),
    Fault("Weights", "one-landing-for-all", "threads share the memory where rows land before they are converted",
          OPS + "cuda_weights.cc", "thread * (scratch_.bytes() / pool_.threads() / 256 * 256)", "int64_t{0}", WEIGHTS,
          unseen="wrong only where one thread's copy comes between another's copy and kernel, and the host's threads "
          "are the system's, not drawn from a seed"),
    Fault("Memory", "scratch-pieces-overlap", "an op's pieces of the scratch memory overlap", OPS + "cuda_memory.cc",
          "used_ += padded;", "", ["matmul_ops_test *cuda*", "attention_ops_test *cuda*"]),
    Fault("Memory", "scratch-too-small", "half of the scratch memory is there", OPS + "cuda_ops.cc",
          "AllocateOnDevice(kScratchBytes", "AllocateOnDevice(INJECTED ? kScratchBytes / 2 : kScratchBytes",
          ["conv_ops_test *LongConvs*cuda"]),
    Fault("Memory", "allocation-too-short", "memory ends 16 bytes before it should", OPS + "cuda_memory.cc",
          "std::max<int64_t>(1, bytes)", "std::max<int64_t>(1, bytes - 16)", WEIGHTS),
    Fault("Memory", "freed-in-use", "a stream frees its pinned memory while copies still leave it",
          OPS + "cuda_stream.cc", "if (stream_ != nullptr) cudaStreamSynchronize(stream_);", "", STREAM,
          unseen="cudaFreeHost waits for the device itself, simulated and real: the wait is for readers"),
]
