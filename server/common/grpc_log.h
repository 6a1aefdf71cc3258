// What gRPC itself has to say.
#ifndef KINORA_SERVER_COMMON_GRPC_LOG_H_
#define KINORA_SERVER_COMMON_GRPC_LOG_H_

namespace kinora {

// From now on gRPC's lines are records of our log (event=grpc), at most one per second: anybody who connects causes
// some (a handshake that fails, a call that is compressed). Before the first call of gRPC; for the whole process.
void TakeGrpcLog();

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_GRPC_LOG_H_
