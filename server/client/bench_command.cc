#include "server/client/bench_command.h"

#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/client/api_call.h"
#include "server/client/batch.h"
#include "server/client/bench_report.h"
#include "server/client/clip_saving.h"
#include "server/client/commands.h"
#include "server/client/interrupts.h"
#include "server/client/serving_wait.h"
#include "server/request/request_flags.h"

namespace kinora {
namespace {

constexpr int kClips = 5, kWarmUps = 1, kMostClips = 1000;
constexpr char kPrompt[] = "a red circle moves to the right on a white background";

struct Plan {
  std::vector<v1::CreateVideoRequest> warm_up, counted;
  WatchOptions watch;
  bool json = false, quiet = false;
};

// The prompts differ, because a worker that caches contexts would encode equal ones only once.
std::vector<v1::CreateVideoRequest> Clips(const v1::CreateVideoRequest& request, int64_t first, int64_t count) {
  std::vector<v1::CreateVideoRequest> clips(count, request);
  for (int64_t i = 0; i < count; ++i) {
    v1::Generation& g = *clips[i].mutable_generation();
    g.set_prompt(absl::StrCat(g.prompt().empty() ? kPrompt : g.prompt(), ", ", first + i));
    if (!g.has_seed()) g.set_seed(first + i);
    clips[i].set_request_id(absl::StrCat(request.request_id(), "-", first + i));
  }
  return clips;
}

absl::StatusOr<Plan> PlanFromFlags(const CommandLine& line) {
  KINORA_ASSIGN_OR_RETURN(const v1::CreateVideoRequest request, RequestFromFlags(line));
  KINORA_ASSIGN_OR_RETURN(const auto clips, line.GetInt("clips", 1, kMostClips));
  KINORA_ASSIGN_OR_RETURN(const auto warm_ups, line.GetInt("warm-up", 0, kMostClips));
  KINORA_ASSIGN_OR_RETURN(const absl::Duration reconnect, ReconnectOf(line));
  KINORA_ASSIGN_OR_RETURN(const absl::Duration serving_wait, ServingWaitOf(line));
  const int64_t warm = warm_ups.value_or(kWarmUps);
  return Plan{.warm_up = Clips(request, 1, warm),
              .counted = Clips(request, warm + 1, clips.value_or(kClips)),
              .watch = {.reconnect = reconnect, .serving_wait = serving_wait, .on_event = nullptr},
              .json = line.Has("json"),
              .quiet = line.Has("quiet")};
}

// Deletes a clip that was only timed. If that fails, it expires like any other.
void Discard(const Connection& connection, const std::string& id) {
  v1::DeleteVideoRequest request;
  request.set_id(id);
  google::protobuf::Empty reply;
  (void)Call<v1::VideoGeneration>(connection, &v1::VideoGeneration::Stub::DeleteVideo, request, &reply);
}

// Queues and follows all clips, and appends the completed ones to `made`.
ExitStatus Make(const Connection& connection, const std::vector<v1::CreateVideoRequest>& requests, const Plan& plan,
                std::vector<v1::Video>* made) {
  ProgressDisplay display(STDERR_FILENO, plan.quiet);
  Batch batch(connection, display, plan.watch, [&](const v1::Video& video, int) {
    display.Clear();
    const ExitStatus outcome = ReportOutcome(video, display);
    if (outcome == kSuccess) made->push_back(video);
    Discard(connection, video.id());
    return outcome;
  });
  const Interrupts interrupts([&](int count) {
    if (count > 1) return batch.Leave();
    display.Note("cancelling the unfinished clips; press Ctrl-C again to leave them to the server");
    batch.Cancel();
  });
  return batch.Run(requests, plan.json);
}

}  // namespace

std::vector<FlagSpec> BenchFlags() {
  std::vector<FlagSpec> flags(RequestFlags().begin(), RequestFlags().end());
  flags.push_back({"clips", "N", "number of timed clips; default: 5"});
  flags.push_back({"warm-up", "N", "untimed clips before them; default: 1"});
  flags.insert(flags.end(), ServingWaitFlags().begin(), ServingWaitFlags().end());
  flags.push_back({"quiet", "", "do not show progress"});
  return flags;
}

ExitStatus Bench(const CommandLine& line) {
  const auto connection = OpenApi(line);
  if (!connection.ok()) return ReportLocalError(connection.status());
  const auto plan = PlanFromFlags(line);
  if (!plan.ok()) return ReportLocalError(plan.status());
  std::vector<v1::Video> made;
  if (!plan->warm_up.empty()) {
    const ExitStatus warm = Make(*connection, plan->warm_up, *plan, &made);
    if (warm != kSuccess) return warm;
    made.clear();
  }
  const ExitStatus outcome = Make(*connection, plan->counted, *plan, &made);
  if (outcome != kSuccess) return outcome;
  const BenchReport report = ReportOf(made);
  std::fputs((plan->json ? BenchJson(report) : BenchText(report)).c_str(), stdout);
  return kSuccess;
}

}  // namespace kinora
