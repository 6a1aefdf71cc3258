// gRPC's own log lines.
#ifndef KINORA_SERVER_NET_GRPC_LOG_H_
#define KINORA_SERVER_NET_GRPC_LOG_H_

namespace kinora {

// Turns gRPC's log lines into records of our log (event=grpc), at most one per second, because any client can cause
// some (a failed handshake, a compressed call). Applies to the whole process. Call before anything else of gRPC.
void TakeGrpcLog();

}  // namespace kinora

#endif  // KINORA_SERVER_NET_GRPC_LOG_H_
