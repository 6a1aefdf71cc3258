#include "engine/parallel/redistribute.h"

namespace kinora {
namespace {

// Whether the parts are adjacent in one tensor, as the columns of one product are.
bool Adjacent(absl::Span<const Tensor> parts) {
  // A dry run has no addresses. There, a row stride of all widths together means that the parts share one tensor.
  if (parts[0].raw() == nullptr) {
    return parts[0].row_stride() == parts[0].width() * static_cast<int64_t>(parts.size());
  }
  for (size_t i = 1; i < parts.size(); ++i) {
    const int64_t expected = parts[0].width() * static_cast<int64_t>(i) * DTypeSize(parts[0].dtype());
    if (parts[i].row_stride() != parts[0].row_stride()) return false;
    if (static_cast<char*>(parts[i].raw()) != static_cast<char*>(parts[0].raw()) + expected) return false;
  }
  return true;
}

}  // namespace

Tensor Kept(Exec& exec, ArenaScope& temp, const Tensor& part) {
  if (exec.mesh.tokens().size() == 1) return part;
  Tensor kept = temp.Alloc(part.dtype(), part.shape());
  exec.ops.stream().Copy(part, kept);
  return kept;
}

Tensor GatherTokens(Exec& exec, ArenaScope& temp, absl::Span<const Tensor> parts, int seq) {
  Communicator& group = exec.mesh.tokens();
  Stream& stream = exec.ops.stream();
  const int64_t n = group.size(), count = static_cast<int64_t>(parts.size());
  const int64_t all_rows = parts[0].rows(), rows = all_rows / seq, width = parts[0].width();
  const DType dtype = parts[0].dtype();
  Tensor joined;  // the parts as one tensor, if adjacent
  if (Adjacent(parts)) joined = Tensor(dtype, {all_rows, count * width}, parts[0].raw(), parts[0].row_stride());
  if (n == 1 && joined.defined()) return joined;
  KINORA_CHECK(width % n == 0) << width << " columns over " << n << " ranks";
  const int64_t slice = width / n;
  const Shape by_rank{n * seq, rows, count * slice};
  const bool reuse = joined.defined() && joined.contiguous();  // nothing reads the parts after packing
  const Tensor first = seq == 1 && reuse ? joined.Reshape(by_rank) : temp.Alloc(dtype, by_rank);
  ArenaScope inner(exec.arena);
  const Tensor second = seq > 1 && reuse ? joined.Reshape(by_rank) : inner.Alloc(dtype, by_rank);
  const Tensor& send = seq == 1 ? second : first;  // so that the result is in `first`
  const Tensor& received = seq == 1 ? first : second;
  for (int64_t rank = 0; rank < n; ++rank) {
    const Tensor to = send.Rows(rank * seq, (rank + 1) * seq).As2D();
    for (int64_t p = 0; p < count; ++p) {
      stream.Copy(parts[p].As2D().Columns(rank * slice, (rank + 1) * slice), to.Columns(p * slice, (p + 1) * slice));
    }
  }
  group.AllToAll(send, received, stream);
  for (int64_t rank = 0; rank < n && seq > 1; ++rank) {
    for (int64_t s = 0; s < seq; ++s) {
      stream.Copy(received.Rows(rank * seq + s, rank * seq + s + 1), first.Rows(s * n + rank, s * n + rank + 1));
    }
  }
  return first.Reshape({n * all_rows, count * slice});
}

Tensor GatheredLike(Exec& exec, ArenaScope& temp, const Tensor& local) {
  const int64_t n = exec.mesh.tokens().size();
  return n == 1 ? local : temp.Alloc(local.dtype(), {local.rows() * n, local.width() / n});
}

void ScatterTokens(Exec& exec, const Tensor& gathered, const Tensor& spent, int seq, Tensor local) {
  Communicator& group = exec.mesh.tokens();
  Stream& stream = exec.ops.stream();
  const int64_t n = group.size();
  if (n == 1) return;
  const int64_t rows = local.rows() / seq, slice = gathered.width(), parts = spent.elements() / local.elements();
  KINORA_CHECK(parts >= 2) << spent.shape().ToString() << " for two of " << local.shape().ToString();
  const Tensor scratch = spent.Reshape({parts, local.elements()});
  Tensor send = gathered.Reshape({seq * n, rows, slice});
  if (seq > 1) {
    const Tensor whole = send;
    send = scratch.Rows(0, 1).Reshape({n * seq, rows, slice});
    for (int64_t rank = 0; rank < n; ++rank) {
      for (int64_t s = 0; s < seq; ++s) {
        stream.Copy(whole.Rows(s * n + rank, s * n + rank + 1), send.Rows(rank * seq + s, rank * seq + s + 1));
      }
    }
  }
  const Tensor received = scratch.Rows(1, 2).Reshape({n, local.rows(), slice});
  group.AllToAll(send, received, stream);
  for (int64_t rank = 0; rank < n; ++rank) {
    stream.Copy(received.Rows(rank, rank + 1).As2D(), local.As2D().Columns(rank * slice, (rank + 1) * slice));
  }
}

void AllGatherTokens(Exec& exec, const Tensor& local, int seq, Tensor all) {
  Communicator& group = exec.mesh.tokens();
  Stream& stream = exec.ops.stream();
  const int64_t n = group.size(), rows = local.rows() / seq, width = local.width();
  if (n == 1 || seq == 1) {
    group.AllGather(local, all, stream);
    return;
  }
  ArenaScope temp(exec.arena);
  Tensor received = temp.Alloc(local.dtype(), {n * seq, rows, width});
  group.AllGather(local, received, stream);
  const Tensor out = all.Reshape({seq * n, rows, width});
  for (int64_t rank = 0; rank < n; ++rank) {
    for (int64_t s = 0; s < seq; ++s) {
      stream.Copy(received.Rows(rank * seq + s, rank * seq + s + 1), out.Rows(s * n + rank, s * n + rank + 1));
    }
  }
}

int ChunksHere(const Exec& exec) { return kKeyChunks / exec.mesh.tokens().size(); }

Tensor GatherChunks(Exec& exec, ArenaScope& temp, const Tensor& chunks) {
  Communicator& group = exec.mesh.tokens();
  if (group.size() == 1) return chunks;
  const Shape& here = chunks.shape();
  Tensor all = temp.Alloc(chunks.dtype(), {kKeyChunks, here[1], here[2], here[3]});
  group.AllGather(chunks, all, exec.ops.stream());
  return all;
}

void MatmulReduced(Exec& exec, const Tensor& x, const Weight& w, Tensor out) {
  exec.ops.Matmul(x, w, {}, out);
  exec.mesh.tensor().AllReduceSum(out, exec.ops.stream());
}

void MatmulReducedThenNorms(Exec& exec, const Tensor& x, const Weight& w, const ResidualUpdate& update) {
  if (exec.mesh.tensor().size() == 1) {
    exec.ops.MatmulThenNorms(x, w, update);
    return;
  }
  ArenaScope temp(exec.arena);
  Tensor sum = temp.Alloc(update.x.dtype(), {x.rows(), update.x.width()});
  MatmulReduced(exec, x, w, sum);
  exec.ops.AddThenNorms(sum, update);
}

void NormAcrossHeads(Exec& exec, absl::Span<const NormedTensor> tensors) {
  Communicator& group = exec.mesh.tensor();
  if (group.size() == 1) {
    if (tensors.size() == 2) {
      exec.ops.QkNormRope(tensors[0].x, tensors[1].x, tensors[0].params, tensors[1].params);
      return;
    }
    for (const NormedTensor& t : tensors) exec.ops.NormRope(t.x, t.params, nullptr);
    return;
  }
  ArenaScope temp(exec.arena);
  int64_t rows = 0;
  for (const NormedTensor& t : tensors) rows += t.x.rows();
  Tensor sums = temp.Alloc(DType::kF32, {rows, 1});
  int64_t row = 0;
  for (const NormedTensor& t : tensors) {
    exec.ops.SumOfSquares(t.x, sums.Rows(row, row + t.x.rows()));
    row += t.x.rows();
  }
  group.AllReduceSum(sums, exec.ops.stream());
  row = 0;
  for (const NormedTensor& t : tensors) {
    NormRopeParams params = t.params;
    params.full_group = params.group * group.size();
    const Tensor part = sums.Rows(row, row + t.x.rows());
    exec.ops.NormRope(t.x, params, &part);
    row += t.x.rows();
  }
}

}  // namespace kinora
