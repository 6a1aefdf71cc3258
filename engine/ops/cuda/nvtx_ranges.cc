#include "engine/ops/cuda/nvtx_ranges.h"

#include <nvtx3/nvToolsExt.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/range_sink.h"

namespace kinora {
namespace {

class NvtxSink : public RangeSink {
 public:
  explicit NvtxSink(nvtxDomainHandle_t domain) : domain_(domain) {}
  void Enter(const char* name, int64_t number) override {
    const std::string text = number < 0 ? name : absl::StrCat(name, " ", number);
    nvtxEventAttributes_t range = {};
    range.version = NVTX_VERSION;
    range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    range.messageType = NVTX_MESSAGE_TYPE_ASCII;
    range.message.ascii = text.c_str();
    nvtxDomainRangePushEx(domain_, &range);
  }
  void Leave() override { nvtxDomainRangePop(domain_); }

 private:
  const nvtxDomainHandle_t domain_;
};

// NVTX 3 is in its headers. Its first call loads the library that NVTX_INJECTION64_PATH names, which a profiler sets,
// and nothing without one; then there is no domain.
RangeSink* Registered() {
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("kinora");
  if (domain == nullptr) return nullptr;
  auto* const sink = new NvtxSink(domain);  // never destroyed: threads may outlive main's statics
  SetRangeSink(sink);
  return sink;
}

}  // namespace

void SendRangesToNvtx() { [[maybe_unused]] static const RangeSink* const sink = Registered(); }

}  // namespace kinora
