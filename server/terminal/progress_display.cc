#include "server/terminal/progress_display.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace kinora {
namespace {

std::string FormatRemaining(double seconds) {
  const int64_t whole = std::llround(std::min(seconds, 1e7));
  if (whole >= 3600) return absl::StrFormat("%d:%02d:%02d left", whole / 3600, whole / 60 % 60, whole % 60);
  return absl::StrFormat("%d:%02d left", whole / 60, whole % 60);
}

int Percent(double fraction) { return static_cast<int>(std::clamp(fraction, 0.0, 1.0) * 100); }

std::string Step(const ProgressState& state) {
  return state.total_steps > 0 ? absl::StrCat(" ", state.step, "/", state.total_steps) : "";
}

int Columns(int fd) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

std::string FormatProgressBar(const ProgressState& state, int columns) {
  constexpr int kCells = 30;
  const int filled = static_cast<int>(std::clamp(state.fraction, 0.0, 1.0) * kCells);
  std::string line = absl::StrFormat("[%s%s] %3d%%  %s%s", std::string(filled, '#'), std::string(kCells - filled, '-'),
                                     Percent(state.fraction), state.stage, Step(state));
  if (state.remaining_seconds >= 0) absl::StrAppend(&line, "  ", FormatRemaining(state.remaining_seconds));
  if (columns > 0 && line.size() > static_cast<size_t>(columns)) line.resize(columns);
  return line;
}

std::string FormatProgressLine(const ProgressState& state) {
  std::string line = absl::StrCat(state.stage, Step(state), ", ", Percent(state.fraction), "%");
  if (state.remaining_seconds >= 0) absl::StrAppend(&line, ", ", FormatRemaining(state.remaining_seconds));
  return line;
}

ProgressDisplay::ProgressDisplay(int fd, bool quiet) : fd_(fd), terminal_(isatty(fd) == 1), quiet_(quiet) {}

void ProgressDisplay::SetPart(int index, int count) {
  part_ = index;
  parts_ = count;
  shown_ = {};
}

ProgressState ProgressDisplay::OfAll(const ProgressState& part) {
  if (parts_ == 1) return part;
  ProgressState all = part;
  all.stage = absl::StrCat("clip ", part_ + 1, "/", parts_, ", ", part.stage);
  const double fraction = std::clamp(part.fraction, 0.0, 1.0);
  parts_fraction_ = std::max(parts_fraction_, (part_ + fraction) / parts_);
  all.fraction = parts_fraction_;
  if (part.remaining_seconds >= 0) {
    if (fraction < 1) part_seconds_ = part.remaining_seconds / (1 - fraction);
    all.remaining_seconds = part.remaining_seconds + (parts_ - part_ - 1) * std::max(0.0, part_seconds_);
  }
  return all;
}

void ProgressDisplay::Show(const ProgressState& shown) {
  if (quiet_) return;
  if (shown.stage == shown_.stage && shown.total_steps == shown_.total_steps && shown.step < shown_.step) return;
  shown_ = shown;
  const ProgressState state = OfAll(shown);
  if (terminal_) {
    // The last column stays free: a terminal that wraps there would leave a copy of the bar behind.
    last_bar_ = absl::StrCat("\r", FormatProgressBar(state, Columns(fd_) - 1), "\033[K");
    Write(last_bar_);
    bar_shown_ = true;
    return;
  }
  const int tenth = state.total_steps > 0 ? state.step * 10 / state.total_steps : 0;
  if (state.stage == last_stage_ && tenth == last_tenth_) return;
  last_stage_ = state.stage;
  last_tenth_ = tenth;
  Write(absl::StrCat(FormatProgressLine(state), "\n"));
}

void ProgressDisplay::Picture(absl::string_view sequence, int rows) {
  if (quiet_ || !terminal_) return;
  Clear();
  if (rows != picture_rows_) Write(std::string(rows, '\n'));  // makes room, which may scroll
  picture_rows_ = rows;
  // Moves up, saves the cursor, draws the picture, restores the cursor and moves down again.
  Write(absl::StrCat("\033[", rows, "A\0337", sequence, "\0338\033[", rows, "B\r"));
  if (!last_bar_.empty()) Write(last_bar_);
  bar_shown_ = !last_bar_.empty();
}

void ProgressDisplay::Note(absl::string_view line) {
  Clear();
  picture_rows_ = 0;
  Write(absl::StrCat(line, "\n"));
}

void ProgressDisplay::NoteOnce(const std::string& line) {
  if (noted_once_.insert(line).second) Note(line);
}

void ProgressDisplay::Clear() {
  if (bar_shown_) Write("\r\033[K");
  bar_shown_ = false;
}

void ProgressDisplay::Write(absl::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd_, text.data(), text.size());
    if (n <= 0) return;  // nobody reads the progress any more; the job continues
    text.remove_prefix(n);
  }
}

}  // namespace kinora
