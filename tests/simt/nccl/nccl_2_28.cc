// Test only: functions added in NCCL 2.27 and 2.28. A library without this file simulates an older version.
#include "tests/simt/device_memory.h"
#include "tests/simt/device_state.h"
#include "tests/simt/nccl/library.h"

using namespace kinora::nccl;  // NOLINT(google-build-using-namespace)
using namespace kinora::simt;  // NOLINT(google-build-using-namespace)

namespace {

bool OnDevice(const void* memory, size_t bytes) {
  const DeviceLock lock;
  return DeviceMemory::Get().Allocated(memory, bytes);
}

// Done once all ranks have registered; fails if their sizes differ.
Result Registered(NcclCommunicator& c, int number, Comm comm, Window* window) {
  std::vector<Segment::Brought> brought;
  if (!c.segment->Met(NcclKey(c.id, "window", number), c.rank, c.size(), &brought)) return Result::kInProgress;
  for (const Segment::Brought& each : brought) {
    if (each.first == brought[0].first) continue;
    return NcclRefuse(Result::kInvalidUsage, "ncclCommWindowRegister: the ranks' windows are of different sizes");
  }
  static uintptr_t last = 0;
  *window = reinterpret_cast<Window>(++last);
  NcclLibrary::Get().windows[*window] = comm;
  return Result::kSuccess;
}

}  // namespace

extern "C" {

Result ncclCommWindowRegister(Comm comm, void* memory, size_t bytes, Window* window, int flags) {
  NcclLock lock(NcclLibrary::Get().mutex);
  *window = nullptr;
  std::shared_ptr<NcclCommunicator> c;
  const Result refused = NcclFind("ncclCommWindowRegister", comm, &c);
  if (refused != Result::kSuccess) return refused;
  if (flags != 0 && flags != kSymmetric) return NcclRefuse(Result::kInvalidArgument, "a window's flags");
  if (reinterpret_cast<uintptr_t>(memory) % kWindowAlignment != 0 || !OnDevice(memory, bytes)) {
    return NcclRefuse(Result::kInvalidArgument, "a window is memory of ncclMemAlloc, from a multiple of 4096 on");
  }
  const int number = c->made_windows++;
  c->segment->Arrive(NcclKey(c->id, "window", number), c->rank, static_cast<int64_t>(bytes), 0);
  return NcclBegin(lock, *c, NcclCommunicator::State::kComing,
                   [=](NcclCommunicator& self) { return Registered(self, number, comm, window); });
}

Result ncclCommWindowDeregister(Comm comm, Window window) {
  const NcclLock lock(NcclLibrary::Get().mutex);
  auto& windows = NcclLibrary::Get().windows;
  const auto found = windows.find(window);
  if (found == windows.end() || found->second != comm) {
    return NcclRefuse(Result::kInvalidArgument, "ncclCommWindowDeregister of a window that is gone");
  }
  windows.erase(found);
  return Result::kSuccess;
}

Result ncclAlltoAll(const void* send, void* receive, size_t count, DataType type, Comm comm, cudaStream_t stream) {
  return NcclEnqueue(comm, {.kind = NcclCall::Kind::kAllToAll,
                            .send = send,
                            .receive = receive,
                            .count = static_cast<int64_t>(count),
                            .type = type,
                            .stream = stream});
}
}
