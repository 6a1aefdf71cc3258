// What this binary was built from: "0.1.0". A frontend and its workers must be of one build.
#ifndef KINORA_SERVER_COMMON_BUILD_VERSION_H_
#define KINORA_SERVER_COMMON_BUILD_VERSION_H_

namespace kinora {

inline constexpr char kBuildVersion[] = KINORA_VERSION;

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_BUILD_VERSION_H_
