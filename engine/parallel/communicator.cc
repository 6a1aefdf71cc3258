#include "engine/parallel/communicator.h"

namespace kinora {

std::string_view CollectiveName(Collective op) {
  switch (op) {
    case Collective::kAllReduceSum:
      return "all_reduce_sum";
    case Collective::kAllGather:
      return "all_gather";
    case Collective::kAllToAll:
      return "all_to_all";
    case Collective::kBroadcast:
      return "broadcast";
  }
  return "unknown";
}

}  // namespace kinora
