// Raw connections, controlled by an attack.
#ifndef KINORA_TESTS_ATTACK_SOCKETS_H_
#define KINORA_TESTS_ATTACK_SOCKETS_H_

#include <string>

#include "engine/base/file_descriptor.h"

namespace kinora {

// Connects to "127.0.0.1:PORT" or "unix:PATH". The result is not open if the connection is rejected. `from`: the
// client's own address, for example "127.0.0.2"; empty: any.
FileDescriptor ConnectTo(const std::string& address, const std::string& from = "");

// Sends as many bytes as the kernel accepts at once and returns their number; −1 if the peer has closed the
// connection.
int SendSome(const FileDescriptor& socket, const std::string& bytes);

}  // namespace kinora

#endif  // KINORA_TESTS_ATTACK_SOCKETS_H_
