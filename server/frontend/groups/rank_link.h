#ifndef KINORA_SERVER_FRONTEND_GROUPS_RANK_LINK_H_
#define KINORA_SERVER_FRONTEND_GROUPS_RANK_LINK_H_

#include "absl/status/status.h"
#include "kinora/v1/worker.pb.h"

namespace kinora {

class RankLink {  // connection to one rank: a Join stream or a test
 public:
  virtual ~RankLink() = default;
  virtual void Send(v1::FrontendMessage message) = 0;  // never blocks; dropped once the stream has ended
  virtual void Close(const absl::Status& status) = 0;  // ends the stream with `status` after pending messages
  virtual void ReadOn() {}                             // the rank's last message has been handled: read the next one
};

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_GROUPS_RANK_LINK_H_
