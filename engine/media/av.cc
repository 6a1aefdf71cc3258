#include "engine/media/av.h"

extern "C" {
#include <libavutil/cpu.h>
}

#include <mutex>

#include "absl/strings/str_cat.h"

namespace kinora {

void AvDeleter::operator()(AVFormatContext* p) const {
  if (p != nullptr && p->pb != nullptr) avio_closep(&p->pb);
  avformat_free_context(p);
}

absl::Status AvError(int code, const std::string& what) {
  const int number = AVUNERROR(code);
  if (number > 0 && number < 4096) return absl::ErrnoToStatus(number, what);  // tags of FFmpeg's own errors are larger
  char text[AV_ERROR_MAX_STRING_SIZE] = "";
  av_strerror(code, text, sizeof text);
  return absl::InternalError(absl::StrCat(what, ": ", text));
}

// The list replaces x264's own detection. Every CPU with AVX-512 also has the instructions in it.
std::string X264Instructions() {
  return (av_get_cpu_flags() & AV_CPU_FLAG_AVX512) != 0 ? "asm=avx2,fma3,bmi2,lzcnt:" : "";
}

void QuietAv() {
  static std::once_flag once;
  std::call_once(once, [] { av_log_set_level(AV_LOG_QUIET); });
}

}  // namespace kinora
