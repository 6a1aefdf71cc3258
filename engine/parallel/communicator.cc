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

int64_t BytesSent(Collective op, int64_t bytes, int size, bool root) {
  switch (op) {
    case Collective::kAllReduceSum:
      return 2 * (size - 1) * bytes / size;
    case Collective::kAllGather:
      return (size - 1) * bytes;
    case Collective::kAllToAll:
      return (size - 1) * bytes / size;
    case Collective::kBroadcast:
      return root && size > 1 ? bytes : 0;
  }
  return 0;
}

}  // namespace kinora
