// Measures one rank of a group on the CPU without the other ranks, compared with a single rank: a forward pass of the
// medium-sized transformer (docs/performance.md), bf16, with random weights.
//   ranks_bench [THREADS = 2] [PAIRS = 5] [VIDEO_TOKENS…= 1536 6144]
// Prints one line per mesh and size: the medians of both, this rank's share of the operations, and its time per
// operation relative to the single rank (the median of the pairs' ratios; 1: as expected for its share). The two run
// alternately.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "engine/parallel/dry_communicator.h"
#include "tests/bench/measure.h"
#include "tests/bench/or_die.h"
#include "tests/bench/transformer_rank.h"

namespace kinora {
namespace {

void Compare(TransformerRank& alone, const MeshShape& shape, int64_t video_tokens, int threads, int pairs) {
  const auto mesh = OrDie(MakeDryMesh(shape));
  TransformerRank rank(*mesh, video_tokens, threads);
  const double share = rank.flops() / alone.flops();
  std::vector<Times> of_alone, of_rank;
  std::vector<double> ratios;
  for (int i = 0; i < pairs; ++i) {
    of_alone.push_back(Measure([&] { alone.Run(); }));
    of_rank.push_back(Measure([&] { rank.Run(); }));
    ratios.push_back(of_rank.back().processor / of_alone.back().processor / share);
  }
  std::printf("%-10s %6lld %9.4f %9.4f %8.3f %8.3f %8.3f\n", shape.ToString().c_str(),
              static_cast<long long>(video_tokens), Medians(of_alone).processor, Medians(of_rank).processor, share,
              share * shape.ranks(), Median(ratios));
  std::fflush(stdout);
}

}  // namespace
}  // namespace kinora

int main(int argc, char** argv) {
  using namespace kinora;  // NOLINT(google-build-using-namespace)
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2, pairs = argc > 2 ? std::atoi(argv[2]) : 5;
  std::vector<int64_t> sizes;
  for (int i = 3; i < argc; ++i) sizes.push_back(std::atoll(argv[i]));
  if (sizes.empty()) sizes = {1536, 6144};
  std::puts(
      "processor seconds: a rank alone, a rank of the mesh; share of the operations, times ranks; time per share");
  for (const int64_t tokens : sizes) {
    const auto single = Mesh::Single();
    TransformerRank alone(*single, tokens, threads);
    for (const MeshShape& shape : {MeshShape{.tokens = 2}, MeshShape{.tokens = 4}, MeshShape{.tokens = 8},
                                   MeshShape{.tensor = 2}, MeshShape{.tensor = 4}}) {
      Compare(alone, shape, tokens, threads, pairs);
    }
  }
  return 0;
}
