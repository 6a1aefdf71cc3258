// Bytes of a resume point's file. What is accepted must be written and read again as it is.
#include <cstdint>
#include <string_view>

#include "engine/base/check.h"
#include "engine/pipeline/resume_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinora;  // NOLINT: one function
  const auto file = ParseResumeFile({reinterpret_cast<const char*>(data), size});
  if (!file.ok()) {
    KINORA_CHECK(file.status().message().substr(0, 13) == "resume file: ") << file.status();
    return 0;
  }
  size_t values = 0;
  for (const auto& [name, value] : file->point.values) values += sizeof(float) * value.values.size();
  KINORA_CHECK(values < size) << "values of " << values << " bytes";
  const std::string bytes = ToBytes(*file);
  const auto again = ParseResumeFile(bytes);
  KINORA_CHECK(again.ok()) << again.status();
  KINORA_CHECK(ToBytes(*again) == bytes);
  return 0;
}
