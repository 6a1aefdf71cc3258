// Connections that say what an attack tells them to.
#ifndef KINORA_TESTS_ATTACK_SOCKETS_H_
#define KINORA_TESTS_ATTACK_SOCKETS_H_

#include <string>

#include "engine/base/file_descriptor.h"

namespace kinora {

// To "127.0.0.1:PORT" or "unix:PATH"; not open if it is refused.
FileDescriptor ConnectTo(const std::string& address);

// What the kernel takes at once; −1 once the other side has gone.
int SendSome(const FileDescriptor& socket, const std::string& bytes);

}  // namespace kinora

#endif  // KINORA_TESTS_ATTACK_SOCKETS_H_
