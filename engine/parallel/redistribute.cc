#include "engine/parallel/redistribute.h"

#include "absl/container/inlined_vector.h"

namespace kinora {
namespace {

// Sums of squares over all columns of a tensor whose columns span the ranks of tensor().
Tensor SquaresAcrossHeads(Exec& exec, ArenaScope& temp, absl::Span<const Tensor> tensors) {
  int64_t rows = 0;
  for (const Tensor& x : tensors) rows += x.rows();
  Tensor sums = temp.Alloc(DType::kF32, {rows, 1});
  int64_t row = 0;
  for (const Tensor& x : tensors) {
    exec.ops.SumOfSquares(x, sums.Rows(row, row + x.rows()));
    row += x.rows();
  }
  exec.mesh.tensor().AllReduceSum(sums, exec.ops.stream());
  return sums;
}

}  // namespace

Tensor NormAndGatherTokens(Exec& exec, const Tensor& qkv, const NormRopeParams& q, const NormRopeParams& k, int seq) {
  Communicator& group = exec.mesh.tokens();
  const int64_t n = group.size(), rows = qkv.rows() / seq, width = qkv.width() / 3, tensor = exec.mesh.tensor().size();
  KINORA_CHECK(qkv.contiguous() && width % n == 0) << qkv.shape().ToString() << " over " << n << " ranks";
  ArenaScope temp(exec.arena);
  QkvParts parts{.q = qkv.Columns(0, width),
                 .k = qkv.Columns(width, 2 * width),
                 .v = qkv.Columns(2 * width, 3 * width),
                 .q_params = q,
                 .k_params = k};
  if (tensor > 1) {
    const Tensor sums = SquaresAcrossHeads(exec, temp, {parts.q, parts.k});
    parts.q_sums = sums.Rows(0, qkv.rows());
    parts.k_sums = sums.Rows(qkv.rows(), 2 * qkv.rows());
    for (NormRopeParams* const params : {&parts.q_params, &parts.k_params}) params->full_group = params->group * tensor;
  }
  Tensor blocks = temp.Alloc(qkv.dtype(), {seq, n, rows, 3 * width / n});
  exec.ops.QkNormRopeToBlocks(parts, blocks);
  group.AllToAll(blocks, qkv.Reshape(blocks.shape()), seq, exec.ops.stream());
  return qkv.Reshape({n * qkv.rows(), 3 * width / n});
}

Tensor Kept(Exec& exec, ArenaScope& temp, const Tensor& part) {
  Tensor kept = temp.Alloc(part.dtype(), part.shape());
  exec.ops.stream().Copy(part, kept);
  return kept;
}

Tensor ScatterTokens(Exec& exec, const Tensor& gathered, const Tensor& spent, int seq) {
  Communicator& group = exec.mesh.tokens();
  const int64_t n = group.size(), rows = gathered.rows() / (n * seq), slice = gathered.width();
  KINORA_CHECK(spent.contiguous() && spent.elements() >= gathered.elements())
      << spent.shape().ToString() << " for " << gathered.shape().ToString();
  const Tensor blocks(gathered.dtype(), {seq, n, rows, slice}, spent.raw());
  group.AllToAll(gathered, blocks, seq, exec.ops.stream());
  return blocks;
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
  absl::InlinedVector<Tensor, 2> x;
  for (const NormedTensor& t : tensors) x.push_back(t.x);
  const Tensor sums = SquaresAcrossHeads(exec, temp, x);
  int64_t row = 0;
  for (const NormedTensor& t : tensors) {
    NormRopeParams params = t.params;
    params.full_group = params.group * group.size();
    const Tensor part = sums.Rows(row, row + t.x.rows());
    exec.ops.NormRope(t.x, params, &part);
    row += t.x.rows();
  }
}

}  // namespace kinora
