// This program attaches itself to NVTX as a profiler does, but linked in.
#include "engine/ops/cuda/nvtx_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

#include <string>
#include <vector>

#include "engine/base/range_sink.h"
#include "engine/ops/backend.h"
#include "tests/testing/status_matchers.h"

namespace kinora {
namespace {

std::vector<std::string> events;

nvtxDomainHandle_t DomainCreate(const char* name) {
  static int domain = 0;
  events.push_back(std::string("domain ") + name);
  return reinterpret_cast<nvtxDomainHandle_t>(&domain);
}

int Push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* range) {
  EXPECT_NE(domain, nullptr);
  EXPECT_EQ(range->version, NVTX_VERSION);
  EXPECT_EQ(range->size, sizeof *range);
  EXPECT_EQ(range->messageType, NVTX_MESSAGE_TYPE_ASCII);
  events.emplace_back(range->message.ascii);
  return 0;
}

int Pop(nvtxDomainHandle_t domain) {
  EXPECT_NE(domain, nullptr);
  events.emplace_back("pop");
  return 0;
}

template <typename F>
NvtxFunctionPointer Pointer(F* function) {
  return reinterpret_cast<NvtxFunctionPointer>(function);
}

// Called by NVTX's first function. Returns 1 for success.
int Attach(NvtxGetExportTableFunc_t table_of) {
  const auto* const callbacks = static_cast<const NvtxExportTableCallbacks*>(table_of(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = Pointer(&DomainCreate);
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = Pointer(&Push);
  *table[NVTX_CBID_CORE2_DomainRangePop] = Pointer(&Pop);
  return 1;
}

}  // namespace
}  // namespace kinora

// NVTX's name for the entry of a profiler that is linked in.
extern "C" NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr;
NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = kinora::Attach;

namespace kinora {
namespace {

TEST(NvtxRanges, ABackendSendsAProfilerTheRangesInADomainOfItsOwn) {
  { const HostRange range(CurrentRangeSink(), "before"); }
  EXPECT_THAT(events, testing::IsEmpty());
  for (int i = 0; i < 2; ++i) ASSERT_THAT(OpenBackend("cuda", {}), IsOk());
  {
    RangeSink* const sink = CurrentRangeSink();
    const HostRange stage(sink, "denoise"), step(sink, "step", 12), block(sink, "block", 0);
  }
  EXPECT_THAT(events, testing::ElementsAre("domain kinora", "denoise", "step 12", "block 0", "pop", "pop", "pop"));
}

}  // namespace
}  // namespace kinora
