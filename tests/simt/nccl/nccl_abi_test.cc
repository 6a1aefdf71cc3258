// Compares the engine's declarations of NCCL (engine/processes/nccl_abi.h) with the library's own header.
#include "engine/processes/nccl_abi.h"

#include <gtest/gtest.h>
#include <nccl.h>

#include <cstddef>
#include <type_traits>

namespace kinora::nccl {
namespace {

#define KINORA_EQUAL(ours, theirs) \
  static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs) && sizeof(ours) == sizeof(theirs))

KINORA_EQUAL(Result::kSuccess, ncclSuccess);
KINORA_EQUAL(Result::kUnhandledCudaError, ncclUnhandledCudaError);
KINORA_EQUAL(Result::kSystemError, ncclSystemError);
KINORA_EQUAL(Result::kInternalError, ncclInternalError);
KINORA_EQUAL(Result::kInvalidArgument, ncclInvalidArgument);
KINORA_EQUAL(Result::kInvalidUsage, ncclInvalidUsage);
KINORA_EQUAL(Result::kRemoteError, ncclRemoteError);
KINORA_EQUAL(Result::kInProgress, ncclInProgress);
KINORA_EQUAL(DataType::kInt8, ncclInt8);
KINORA_EQUAL(DataType::kUint8, ncclUint8);
KINORA_EQUAL(DataType::kInt32, ncclInt32);
KINORA_EQUAL(DataType::kInt64, ncclInt64);
KINORA_EQUAL(DataType::kFloat32, ncclFloat32);
KINORA_EQUAL(DataType::kBfloat16, ncclBfloat16);
KINORA_EQUAL(Reduction::kSum, ncclSum);
KINORA_EQUAL(kUnset, NCCL_CONFIG_UNDEF_INT);
static_assert(kHeaderVersion == NCCL_VERSION_CODE);
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));
static_assert(sizeof(Config) == sizeof(ncclConfig_t));
#define KINORA_FIELD(ours, theirs) static_assert(offsetof(Config, ours) == offsetof(ncclConfig_t, theirs))
KINORA_FIELD(size, size);
KINORA_FIELD(magic, magic);
KINORA_FIELD(version, version);
KINORA_FIELD(blocking, blocking);
KINORA_FIELD(cga_cluster_size, cgaClusterSize);
KINORA_FIELD(min_ctas, minCTAs);
KINORA_FIELD(max_ctas, maxCTAs);
KINORA_FIELD(net_name, netName);
KINORA_FIELD(split_share, splitShare);
KINORA_FIELD(traffic_class, trafficClass);
KINORA_FIELD(name, commName);
KINORA_FIELD(collnet_enable, collnetEnable);
KINORA_FIELD(cta_policy, CTAPolicy);
KINORA_FIELD(shrink_share, shrinkShare);
KINORA_FIELD(nvls_ctas, nvlsCTAs);
KINORA_FIELD(channels_per_net_peer, nChannelsPerNetPeer);
KINORA_FIELD(nvlink_centric_sched, nvlinkCentricSched);

// Whether a parameter or result has the same ABI: a pointer, an integer of the same size, an id, or void.
template <typename Ours, typename Theirs>
constexpr bool Same() {
  if constexpr (std::is_void_v<Ours> || std::is_void_v<Theirs>) {
    return std::is_same_v<Ours, Theirs>;
  } else if constexpr (std::is_pointer_v<Ours> || std::is_pointer_v<Theirs>) {
    return std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>;
  } else {
    const bool whole =
        (std::is_integral_v<Ours> || std::is_enum_v<Ours>)&&(std::is_integral_v<Theirs> || std::is_enum_v<Theirs>);
    const bool id = std::is_same_v<Ours, UniqueId> && std::is_same_v<Theirs, ncclUniqueId>;
    return (whole || id) && sizeof(Ours) == sizeof(Theirs);
  }
}
template <typename R, typename... P, typename S, typename... Q>
constexpr bool SameCall(R (*)(P...), S (*)(Q...)) {
  if constexpr (sizeof...(P) != sizeof...(Q)) {
    return false;
  } else {
    return Same<R, S>() && (Same<P, Q>() && ...);
  }
}
#define KINORA_CALL(name) \
  static_assert(SameCall(decltype(Functions::name){nullptr}, static_cast<decltype(&nccl##name)>(nullptr)))

KINORA_CALL(GetVersion);
KINORA_CALL(GetUniqueId);
KINORA_CALL(GetErrorString);
KINORA_CALL(GetLastError);
KINORA_CALL(CommInitRankConfig);
KINORA_CALL(CommSplit);
KINORA_CALL(CommFinalize);
KINORA_CALL(CommDestroy);
KINORA_CALL(CommAbort);
KINORA_CALL(CommGetAsyncError);
KINORA_CALL(AllReduce);
KINORA_CALL(AllGather);
KINORA_CALL(Broadcast);
KINORA_CALL(Send);
KINORA_CALL(Recv);
KINORA_CALL(GroupStart);
KINORA_CALL(GroupEnd);
KINORA_CALL(AlltoAll);

TEST(NcclAbi, IsThatOfTheLibrarysHeader) {
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  const Config ours;
  EXPECT_EQ(ours.size, theirs.size);
  EXPECT_EQ(ours.magic, theirs.magic);
  EXPECT_EQ(ours.version, theirs.version);
}

}  // namespace
}  // namespace kinora::nccl
