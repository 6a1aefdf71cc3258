// Two ranks, one of which arrives late in each collective of each group once, on a clock that the test controls. The
// reported times of calls are therefore exact, regardless of actual durations.
#ifndef KINORA_TESTS_PARALLEL_DELAYED_RANK_H_
#define KINORA_TESTS_PARALLEL_DELAYED_RANK_H_

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/parallel/mesh.h"
#include "engine/tensor/cpu_stream.h"

namespace kinora {

struct CallCounter : CollectiveObserver {
  void OnCollective(const CollectiveCall&) override { ++calls; }
  int64_t calls = 0;
};

// Must be created before the ranks, which may be processes.
class DelayedRank {
 public:
  static constexpr double kDelaySeconds = 3;

  DelayedRank() {
    void* shared =
        mmap(nullptr, sizeof(std::atomic<int64_t>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    KINORA_CHECK(shared != MAP_FAILED);
    seconds_ = new (shared) std::atomic<int64_t>(0);
    KINORA_CHECK(pipe(began_) == 0);
  }
  ~DelayedRank() {
    munmap(seconds_, sizeof(*seconds_));
    for (const int end : began_) close(end);
  }

  // Requires {.tokens = 2} and must run before any other collective. Runs all collectives of all groups repeatedly; in
  // each repetition rank 1 is late for another one of them. Returns the deviations that this rank observed, one per
  // line, or "".
  absl::StatusOr<std::string> Run(const Mesh& mesh) {
    Clock clock(*this);
    Heard heard;
    mesh.Observe(heard, clock);
    std::string wrong;
    for (const MeshAxis late_axis : {MeshAxis::kTokens, MeshAxis::kWorld}) {
      for (int late = 0; late < kCollectives; ++late) {
        heard.calls = {};
        for (const MeshAxis axis : {MeshAxis::kTokens, MeshAxis::kWorld}) {
          for (int op = 0; op < kCollectives; ++op) {
            const bool delayed = axis == late_axis && op == late;
            if (delayed && mesh.world().rank() == 1) ComeLate();
            clock.announces = delayed && mesh.world().rank() == 0;
            KINORA_RETURN_IF_ERROR(Call(static_cast<Collective>(op), mesh.group(axis)));
          }
        }
        wrong += Differences(mesh, heard, late_axis, late);
      }
    }
    const double waited = mesh.world().rank() == 0 ? 2 * kCollectives * kDelaySeconds : 0;
    if (mesh.WaitSeconds() != waited) absl::StrAppend(&wrong, "waited ", mesh.WaitSeconds(), " s, not ", waited, "\n");
    return wrong;
  }

 private:
  struct Clock : kinora::Clock {
    explicit Clock(DelayedRank& owner) : owner(owner) {}
    // The first reading after `announces` was set marks the start of a call; then the late rank may advance the time.
    absl::Time Now() const override {
      const absl::Time now = absl::UnixEpoch() + absl::Seconds(owner.seconds_->load());
      if (announces) KINORA_CHECK(write(owner.began_[1], "", 1) == 1);
      announces = false;
      return now;
    }
    bool AwaitUntil(absl::Mutex&, const absl::Condition&, absl::Time) override { KINORA_CHECK(false) << "not asked"; }
    DelayedRank& owner;
    mutable bool announces = false;
  };

  struct Heard : CollectiveObserver {
    void OnCollective(const CollectiveCall& call) override {
      calls[static_cast<int>(call.axis)][static_cast<int>(call.op)].push_back(call);
    }
    std::array<std::array<std::vector<CollectiveCall>, kCollectives>, kMeshAxes> calls;
  };

  void ComeLate() {
    char byte;
    KINORA_CHECK(read(began_[0], &byte, 1) == 1);
    *seconds_ += static_cast<int64_t>(kDelaySeconds);
  }

  static absl::Status Call(Collective op, Communicator& group) {
    std::vector<float> x(6, 1.0f), all(12);
    const int64_t counts[] = {6, 6};
    const Tensor whole(DType::kF32, {12}, all.data()), part(DType::kF32, {6}, x.data());
    CpuStream stream;
    if (op == Collective::kAllReduceSum) group.AllReduceSum(part, stream);
    if (op == Collective::kAllGather) group.AllGather(part, whole, stream);
    if (op == Collective::kAllToAll) group.AllToAll(part, whole.Rows(0, 6), 1, stream);
    if (op == Collective::kBroadcast) group.Broadcast(0, part, stream);
    if (op == Collective::kGatherTo) group.GatherTo(0, counts, part, whole, stream);
    return stream.Synchronize();
  }

  static std::string Differences(const Mesh& mesh, const Heard& heard, MeshAxis late_axis, int late) {
    std::string wrong;
    for (int axis = 0; axis < kMeshAxes; ++axis) {
      const bool there = mesh.group(static_cast<MeshAxis>(axis)).size() > 1;
      for (int op = 0; op < kCollectives; ++op) {
        const std::vector<CollectiveCall>& calls = heard.calls[axis][op];
        const std::string name = absl::StrCat(std::string(MeshAxisName(static_cast<MeshAxis>(axis))), "/",
                                              std::string(CollectiveName(static_cast<Collective>(op))));
        if (calls.size() != (there ? 1 : 0)) absl::StrAppend(&wrong, name, " heard ", calls.size(), " times\n");
        if (!there || calls.empty()) continue;
        const bool waits = static_cast<int>(late_axis) == axis && late == op && mesh.world().rank() == 0;
        const double expected = waits ? kDelaySeconds : 0;
        if (calls[0].wait_seconds != expected || calls[0].seconds != expected) {
          absl::StrAppend(&wrong, name, " waited ", calls[0].wait_seconds.value_or(-1), " s of ", calls[0].seconds,
                          ", not ", expected, "\n");
        }
        const bool root = mesh.world().rank() == 0;
        const int64_t bytes = BytesSent(static_cast<Collective>(op), 24, 2, root);
        if (calls[0].bytes != bytes) absl::StrAppend(&wrong, name, " sent ", calls[0].bytes, ", not ", bytes, "\n");
      }
    }
    return wrong;
  }

  std::atomic<int64_t>* seconds_;
  int began_[2];
};

}  // namespace kinora

#endif  // KINORA_TESTS_PARALLEL_DELAYED_RANK_H_
