// The dispatcher's estimates: those requested from rank 0 of a group, and those known for a shape.
#ifndef KINORA_SERVER_FRONTEND_GROUPS_KNOWN_SHAPE_H_
#define KINORA_SERVER_FRONTEND_GROUPS_KNOWN_SHAPE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "kinora/v1/video_generation.pb.h"
#include "server/frontend/jobs/job_store.h"

namespace kinora {

struct PendingEstimate {
  std::string group;
  Done<v1::Estimate> done;
};

struct KnownShape {
  std::optional<v1::Estimate> estimate{};
  bool asked = false, stale = false;  // asked: rank 0 has not answered yet; stale: run speeds have changed since
  std::map<int64_t, Done<v1::Estimate>> waiting{};  // by ticket, until the first answer
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_KNOWN_SHAPE_H_
