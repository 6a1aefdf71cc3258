// Random identifiers and seeds from the kernel: unguessable, and unique across frontends.
#ifndef KINORA_SERVER_FRONTEND_JOBS_RANDOM_ID_H_
#define KINORA_SERVER_FRONTEND_JOBS_RANDOM_ID_H_

#include <cstdint>
#include <string>

namespace kinora {

std::string RandomId();  // 32 hexadecimal digits
uint64_t RandomSeed();   // below 2^32: exact in every JSON parser and short to type

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_RANDOM_ID_H_
