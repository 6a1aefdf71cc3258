#include "server/frontend/groups/rank_agreement.h"

#include "absl/strings/str_cat.h"

namespace kinora {

std::string Disagreement(const v1::Ready& a, const v1::Ready& b) {
  const auto differ = [](const char* what, const std::string& x, const std::string& y) {
    return absl::StrCat(what, ": \"", x, "\", \"", y, "\"");
  };
  if (a.mesh() != b.mesh()) return differ("the mesh", a.mesh(), b.mesh());
  if (a.precision() != b.precision()) return differ("the precision", a.precision(), b.precision());
  if (a.device() != b.device()) return differ("the device", a.device(), b.device());
  if (a.untiled_decode() != b.untiled_decode()) return "untiled_decode; give it to every rank or to none";
  if (a.decoder_border() != b.decoder_border()) {
    return differ("decoder_border", a.decoder_border(), b.decoder_border());
  }
  if (a.checkpoint() == b.checkpoint()) return "";
  return "their model files; give every rank the same files";
}

}  // namespace kinora
