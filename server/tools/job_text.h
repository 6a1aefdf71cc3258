// How `kinora` shows jobs to people: all of one, or one line of many. Times are local and relative, numbers rounded;
// exact ones are for --json.
#ifndef KINORA_SERVER_TOOLS_JOB_TEXT_H_
#define KINORA_SERVER_TOOLS_JOB_TEXT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kinora/v1/video_generation.pb.h"

namespace kinora {

bool IsTerminal(v1::Video::State state);
// The effective request; of one for a given sound with the frames that the sound came to, once it was read.
v1::Generation MadeOf(const v1::Video& video);
// "denoise 2/8", "encode"; empty: it has not begun.
std::string FormatReached(const v1::Progress& progress);

// Several lines, "name  value".
std::string FormatVideo(const v1::Video& video, absl::Time now);

// ID STATE AGE SECONDS SIZE SEED PROMPT. Seconds are what the job took or has taken so far; of one that waits, after
// "~", what it was estimated to take. The header, then a line each, in columns as wide as they need. columns: of the
// terminal, where prompts are cut; 0: they are whole.
std::vector<std::string> FormatVideoRows(absl::Span<const v1::Video> videos, absl::Time now, int columns);

// `text` without what a terminal would obey: control characters are spaces. keep_lines: but line breaks and tabs.
std::string Printable(absl::string_view text, bool keep_lines);

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_JOB_TEXT_H_
