// Progress of one job for people: on a terminal one bar that redraws itself, otherwise a plain line for each stage and
// for each whole tenth of its steps. Knows nothing of the protocol, so kinora and kinora-render share it.
#ifndef KINORA_SERVER_TOOLS_PROGRESS_DISPLAY_H_
#define KINORA_SERVER_TOOLS_PROGRESS_DISPLAY_H_

#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace kinora {

struct ProgressState {
  std::string stage;  // "denoise"
  int step = 0;       // done, of total_steps; 0 of 0: the stage has no steps
  int total_steps = 0;
  double fraction = 0;            // of the whole job, 0..1
  double remaining_seconds = -1;  // of the whole job; negative: unknown
};

// "[#####-----]  50%  denoise 4/8  0:12 left", cut to `columns`.
std::string FormatProgressBar(const ProgressState& state, int columns);
// "denoise 4/8, 50%, 0:12 left"
std::string FormatProgressLine(const ProgressState& state);

class ProgressDisplay {  // one thread at a time
 public:
  // Writes to `fd`, which stays the caller's. `quiet`: notes only.
  ProgressDisplay(int fd, bool quiet);
  ~ProgressDisplay() { Clear(); }
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  // What is shown from now on is the clip `index` of `count`, of which index are done: the bar is that of all of them,
  // with the time that they take at the pace so far, and lines of State are left out. One clip: as without it.
  void SetPart(int index, int count);
  void Show(const ProgressState& state);
  void State(absl::string_view line) {  // a whole line that belongs to the progress
    if (!quiet_ && parts_ == 1) Note(line);
  }
  void Note(absl::string_view line);       // a whole line, above the bar
  void NoteOnce(const std::string& line);  // unless it was said before
  void Clear();                            // takes the bar away
  // A picture of so many rows above the bar, in the place of the last unless a line was written since. sequence: shows
  // it at the cursor. Nothing where Show draws no bar.
  void Picture(absl::string_view sequence, int rows);

 private:
  ProgressState OfAll(const ProgressState& part) const;
  void Write(absl::string_view text);

  const int fd_;
  const bool terminal_;
  const bool quiet_;
  int part_ = 0, parts_ = 1;
  absl::Time parts_began_ = absl::InfiniteFuture();
  bool bar_shown_ = false;
  int picture_rows_ = 0;  // directly above the bar; 0: there is none
  std::set<std::string> noted_once_;
  std::string last_bar_;
  std::string last_stage_;
  int last_tenth_ = -1;
};

}  // namespace kinora

#endif  // KINORA_SERVER_TOOLS_PROGRESS_DISPLAY_H_
