// Random identifiers and seeds from the kernel: not to be guessed, equal on no two frontends.
#ifndef KINORA_SERVER_FRONTEND_JOBS_RANDOM_ID_H_
#define KINORA_SERVER_FRONTEND_JOBS_RANDOM_ID_H_

#include <cstdint>
#include <string>

namespace kinora {

std::string RandomId();  // 32 hexadecimal digits
uint64_t RandomSeed();   // below 2^32, so that it survives every JSON reader and is short to type

}  // namespace kinora

#endif  // KINORA_SERVER_FRONTEND_JOBS_RANDOM_ID_H_
