// Compares a group of ranks in threads of one core each with one rank of as many threads, for a forward pass of the
// medium-sized transformer (docs/performance.md), bf16, with random weights. Also compares the group with and without
// measurement of its collectives for the worker's metrics.
//   group_bench [PAIRS = 5] [VIDEO_TOKENS = 1536]
// Prints one line per mesh of two ranks: the median times, and the medians of the pairs' ratios. The three variants run
// alternately.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "engine/parallel/agree.h"
#include "engine/parallel/thread_communicator.h"
#include "server/worker/collective_metrics.h"
#include "tests/bench/measure.h"
#include "tests/bench/or_die.h"
#include "tests/bench/transformer_rank.h"

namespace kinora {
namespace {

// The ranks of a mesh, one thread each.
class Group {
 public:
  Group(const MeshShape& shape, int64_t video_tokens, bool measured)
      : meshes_(OrDie(MakeThreadMeshes(shape))), ranks_(meshes_.size()), metrics_(registry_) {
    if (measured) {
      for (const auto& mesh : meshes_) {
        of_ranks_.push_back(std::make_unique<CollectiveMetrics>(*mesh, metrics_));
        mesh->Observe(*of_ranks_.back(), Clock::Steady());
      }
    }
    OnEach([&](const Mesh& mesh) {
      ranks_[mesh.world().rank()] = std::make_unique<TransformerRank>(mesh, video_tokens, 1);
    });
  }
  void Run() {
    OnEach([&](const Mesh& mesh) { ranks_[mesh.world().rank()]->Run(); });
  }

 private:
  template <typename Body>
  void OnEach(const Body& body) {
    std::vector<const Mesh*> meshes;
    for (const auto& mesh : meshes_) meshes.push_back(mesh.get());
    const absl::Status status = OnEveryRank(meshes, [&](const Mesh& mesh) {
      body(mesh);
      return absl::OkStatus();
    });
    KINORA_CHECK(status.ok()) << status.ToString();
  }

  const std::vector<std::unique_ptr<Mesh>> meshes_;
  std::vector<std::unique_ptr<TransformerRank>> ranks_;
  prometheus::Registry registry_;
  WorkerMetrics metrics_;
  std::vector<std::unique_ptr<CollectiveMetrics>> of_ranks_;
};

void Compare(TransformerRank& alone, const MeshShape& shape, int64_t video_tokens, int pairs) {
  Group group(shape, video_tokens, false), measured(shape, video_tokens, true);
  std::vector<Times> of_alone, of_group, of_measured;
  std::vector<double> of_one, cost;
  for (int i = 0; i < pairs; ++i) {
    of_alone.push_back(Measure([&] { alone.Run(); }));
    of_group.push_back(Measure([&] { group.Run(); }));
    of_measured.push_back(Measure([&] { measured.Run(); }));
    of_one.push_back(of_group.back().wall / of_alone.back().wall);
    cost.push_back(of_measured.back().wall / of_group.back().wall);
  }
  std::printf("%-10s %6lld %9.4f %9.4f %9.4f %8.3f %8.4f\n", shape.ToString().c_str(),
              static_cast<long long>(video_tokens), Medians(of_alone).wall, Medians(of_group).wall,
              Medians(of_measured).wall, Median(of_one), Median(cost));
  std::fflush(stdout);
}

}  // namespace
}  // namespace kinora

int main(int argc, char** argv) {
  using namespace kinora;  // NOLINT(google-build-using-namespace)
  const int pairs = argc > 1 ? std::atoi(argv[1]) : 5;
  const int64_t tokens = argc > 2 ? std::atoll(argv[2]) : 1536;
  std::puts("seconds: one rank with two threads, two ranks, two measured ranks; two beside one, measured beside not");
  const auto single = Mesh::Single();
  TransformerRank alone(*single, tokens, 2);
  for (const MeshShape& shape : {MeshShape{.tokens = 2}, MeshShape{.tensor = 2}}) {
    Compare(alone, shape, tokens, pairs);
  }
  return 0;
}
