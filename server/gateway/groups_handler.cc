// GET /v1/groups: the worker groups of the frontends whose admin addresses are given, each with its running job.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "server/gateway/handlers.h"
#include "server/gateway/video_body.h"

namespace kinora {
namespace {

// Asks a frontend about the caller first, since an admin address that is a Unix socket takes any caller; then all admin
// addresses at once; then for the progress of the jobs that run.
class GroupsCall : public std::enable_shared_from_this<GroupsCall> {
 public:
  GroupsCall(HandlerContext& context, const RoutedRequest& request) : context_(context), request_(request) {}

  void Begin() { CheckCaller(context_.frontends.InTurn(""), 0); }

 private:
  // The first frontend that can be reached decides.
  void CheckCaller(const std::vector<FrontendClient*>& frontends, size_t index) {
    const auto on_models = [self = shared_from_this(), frontends,
                            index](const absl::StatusOr<v1::ListModelsResponse>& models) {
      if (models.ok()) return self->AskAdmins();
      const bool other = absl::IsUnavailable(models.status()) && index + 1 < frontends.size();
      if (other) return self->CheckCaller(frontends, index + 1);
      self->request_.exchange->Reply(ErrorReply(models.status()));
    };
    request_.call->Set(frontends[index]->ListModels(request_.caller, on_models));
  }

  void AskAdmins() {
    {
      absl::MutexLock lock(&mu_);
      awaited_ = context_.admins.size();
    }
    for (const auto& admin : context_.admins) {
      admin->ListWorkerGroups(request_.caller, [self = shared_from_this(), &address = admin->address()](
                                                   const absl::StatusOr<v1::ListWorkerGroupsResponse>& listed) {
        self->OnGroups(address, listed);
      });
    }
  }

  void OnGroups(const std::string& address, const absl::StatusOr<v1::ListWorkerGroupsResponse>& listed)
      ABSL_LOCKS_EXCLUDED(mu_) {
    {
      absl::MutexLock lock(&mu_);
      if (listed.ok()) {
        for (const v1::WorkerGroup& group : listed->groups()) AddGroup(address, group);
      } else {
        listing_.failures.push_back({address, listed.status()});
      }
      if (--awaited_ > 0) return;
      if (listing_.failures.size() == context_.admins.size()) return Fail(listing_.failures.front().status);
      for (const GroupListing::Group& group : listing_.groups) awaited_ += group.group.video_id().empty() ? 0 : 1;
      if (awaited_ == 0) return Answer();
    }
    AskJobs();
  }

  // Frontends that call each other list the groups of all, so each group can be listed several times.
  void AddGroup(const std::string& address, const v1::WorkerGroup& group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const std::string& frontend = group.frontend().empty() ? address : group.frontend();
    for (const GroupListing::Group& known : listing_.groups) {
      if (known.frontend == frontend && known.group.id() == group.id()) return;
    }
    listing_.groups.push_back({frontend, group, {}});
  }

  void AskJobs() ABSL_LOCKS_EXCLUDED(mu_) {
    std::vector<std::pair<size_t, std::string>> jobs;
    {
      absl::MutexLock lock(&mu_);
      for (size_t i = 0; i < listing_.groups.size(); ++i) {
        if (!listing_.groups[i].group.video_id().empty()) jobs.emplace_back(i, listing_.groups[i].group.video_id());
      }
    }
    for (const auto& [index, id] : jobs) {
      const auto call = std::make_shared<CurrentCall>();
      const auto on_found = [self = shared_from_this(), call, index = index,
                             id = id](absl::StatusOr<FrontendClient*> found) {
        if (!found.ok()) return self->OnJob(index, found.status());
        const auto on_video = [self, index](const absl::StatusOr<v1::Video>& video) { self->OnJob(index, video); };
        call->Set((*found)->GetVideo(self->request_.caller, id, on_video));
      };
      context_.frontends.Find(request_.caller, id, call, on_found);
    }
  }

  // A job that has just ended, or that cannot be asked about, has no progress.
  void OnJob(size_t index, const absl::StatusOr<v1::Video>& video) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (video.ok() && video->has_progress()) listing_.groups[index].progress = video->progress();
    if (--awaited_ == 0) Answer();
  }

  void Answer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    request_.exchange->Reply(JsonReply(200, GroupListBody(listing_)));
  }

  // The caller's token is valid for jobs, so 401 would make a client ask for another one.
  void Fail(const absl::Status& status) {
    if (!absl::IsUnauthenticated(status)) return request_.exchange->Reply(ErrorReply(status));
    request_.exchange->Reply(ErrorReply(
        absl::PermissionDeniedError("the admin address takes other tokens (admin_token_file) than this one")));
  }

  HandlerContext& context_;
  const RoutedRequest request_;
  absl::Mutex mu_;
  size_t awaited_ ABSL_GUARDED_BY(mu_) = 0;
  GroupListing listing_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

void ListGroups(HandlerContext& context, const RoutedRequest& request) {
  if (context.admins.empty()) {
    return request.exchange->Reply(ProblemReply(
        {404, "no_admin_address",
         "this gateway does not know the worker groups; start it with --admin and the frontend's admin_address"}));
  }
  std::make_shared<GroupsCall>(context, request)->Begin();
}

}  // namespace kinora
