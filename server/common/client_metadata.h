// How the frontend's own gateway tells it whose call it passes on.
#ifndef KINORA_SERVER_COMMON_CLIENT_METADATA_H_
#define KINORA_SERVER_COMMON_CLIENT_METADATA_H_

namespace kinora {

// The client's address without its port. A frontend believes it only on the socket of its own gateway.
inline constexpr char kClientMetadata[] = "kinora-client";

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_CLIENT_METADATA_H_
