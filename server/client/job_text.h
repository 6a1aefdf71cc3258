// Text about jobs: all fields of one, or one line each for many. Times are local and relative, numbers rounded; --json
// has exact values.
#ifndef KINORA_SERVER_CLIENT_JOB_TEXT_H_
#define KINORA_SERVER_CLIENT_JOB_TEXT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kinora/v1/video_generation.pb.h"

namespace kinora {

bool IsTerminal(v1::Video::State state);
// The effective request, with the number of frames of the clip once it is known (FramesOf).
v1::Generation MadeOf(const v1::Video& video);
// "denoise 2/8", "encode"; empty before the run begins.
std::string FormatReached(const v1::Progress& progress);
// "resumed from step 12 of denoise_1", or why the run began anew although something was stored; else empty.
std::string FormatResumed(const v1::Resolved& resolved);

// Several lines, "name  value".
std::string FormatVideo(const v1::Video& video, absl::Time now);

// A header and a line per job, in aligned columns: ID STATE AGE SECONDS SIZE SEED PROMPT. SECONDS is the run time so
// far; for a queued job the estimate, after "~". columns: width of the terminal, at which lines are cut; 0: not cut.
std::vector<std::string> FormatVideoRows(absl::Span<const v1::Video> videos, absl::Time now, int columns);

// Returns `text` with control characters, which a terminal could obey, replaced by spaces. keep_lines: keeps line
// breaks and tabs.
std::string Printable(absl::string_view text, bool keep_lines);

}  // namespace kinora

#endif  // KINORA_SERVER_CLIENT_JOB_TEXT_H_
