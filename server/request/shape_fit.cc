#include "server/request/shape_fit.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/common/status_details.h"

namespace kinora {

absl::Status ShapeTooLarge(const v1::Estimate& estimate) {
  const v1::Generation& asked = estimate.effective();
  const v1::Estimate::Shape& nearest = estimate.nearest();
  const bool chosen = asked.has_auto_length();  // by the model: the longest was estimated
  const std::string frames = chosen ? absl::StrCat("up to ", asked.auto_length().max_seconds(), " s")
                                    : absl::StrCat(asked.num_frames(), " frames");
  const std::string why =
      absl::StrCat(asked.width(), "x", asked.height(), " with ", frames, " does not fit",
                   estimate.problems().empty() ? "" : ": ", absl::StrJoin(estimate.problems(), "; "));
  if (!estimate.has_nearest()) {
    return WithErrorInfo(InvalidField("generation.width", absl::StrCat(why, "; no size fits")), "SHAPE_TOO_LARGE");
  }
  FieldViolations violations;
  if (chosen && nearest.width() == asked.width() && nearest.height() == asked.height()) {
    const double seconds = nearest.num_frames() / asked.frame_rate();
    if (seconds >= asked.auto_length().min_seconds()) {
      violations.push_back(
          {"generation.auto_length.max_seconds", absl::StrCat(why, "; nearest at this size: ", seconds)});
    } else {
      violations.push_back(
          {"generation.width", absl::StrCat(why, "; at this size at most ", seconds, " s do; reduce width or height")});
    }
  } else if (!chosen && nearest.num_frames() != asked.num_frames()) {
    violations.push_back(
        {"generation.num_frames", absl::StrCat(why, "; nearest at this size: ", nearest.num_frames())});
  } else {
    violations.push_back({"generation.width", absl::StrCat(why, "; nearest: ", nearest.width())});
    violations.push_back({"generation.height", absl::StrCat("nearest: ", nearest.height())});
  }
  const std::map<std::string, std::string> shape = {{"nearest_width", absl::StrCat(nearest.width())},
                                                    {"nearest_height", absl::StrCat(nearest.height())},
                                                    {"nearest_frames", absl::StrCat(nearest.num_frames())}};
  return WithErrorInfo(InvalidFields(violations), "SHAPE_TOO_LARGE", shape);
}

}  // namespace kinora
