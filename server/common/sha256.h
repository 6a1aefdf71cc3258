// Incremental SHA-256.
#ifndef KINORA_SERVER_COMMON_SHA256_H_
#define KINORA_SERVER_COMMON_SHA256_H_

#include <memory>
#include <string>
#include <string_view>

namespace kinora {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void Update(std::string_view bytes);
  std::string Hex();  // lower case; call once, last

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string Sha256Hex(std::string_view bytes);

}  // namespace kinora

#endif  // KINORA_SERVER_COMMON_SHA256_H_
