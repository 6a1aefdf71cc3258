#include "server/client/job_lookup.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kinora/v1/video_generation.grpc.pb.h"
#include "server/client/api_call.h"

namespace kinora {
namespace {

constexpr size_t kIdLength = 32;
constexpr int kNamed = 5;  // matches listed in an error

}  // namespace

grpc::Status FindJob(const Connection& connection, absl::string_view typed, std::string* id, Halt& halt) {
  *id = std::string(typed);
  if (typed.size() >= kIdLength) return grpc::Status::OK;
  if (typed.empty()) return {grpc::StatusCode::INVALID_ARGUMENT, "ID: is empty"};
  v1::ListVideosRequest request;
  request.set_id_prefix(*id);
  request.set_page_size(kNamed);
  v1::ListVideosResponse reply;
  grpc::Status status =
      Call<v1::VideoGeneration>(connection, &v1::VideoGeneration::Stub::ListVideos, request, &reply, halt);
  if (!status.ok()) return status;
  std::vector<std::string> found;
  for (const v1::Video& video : reply.videos()) {
    if (absl::StartsWith(video.id(), typed)) found.push_back(video.id());  // an older server ignores id_prefix
  }
  if (found.empty())
    return {grpc::StatusCode::NOT_FOUND, absl::StrCat("no job has an ID that begins with \"", typed, "\"")};
  if (found.size() > 1) {
    return {grpc::StatusCode::INVALID_ARGUMENT,
            absl::StrCat("ID: \"", typed, "\" matches several jobs: ", absl::StrJoin(found, ", "),
                         reply.next_page_token().empty() ? "" : ", …", "; type more characters")};
  }
  *id = found[0];
  return grpc::Status::OK;
}

}  // namespace kinora
