// Shows the progress of one job: on a terminal as a bar that redraws itself, otherwise as a plain line for each stage
// and for each whole tenth of its steps. Independent of the protocol, so kinora and kinora-render share it.
#ifndef KINORA_SERVER_TERMINAL_PROGRESS_DISPLAY_H_
#define KINORA_SERVER_TERMINAL_PROGRESS_DISPLAY_H_

#include <set>
#include <string>

#include "absl/strings/string_view.h"

namespace kinora {

struct ProgressState {
  std::string stage;  // "denoise"
  int step = 0;       // steps done of total_steps; 0 of 0: the stage has no steps
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
  // Writes to `fd`, which the caller owns. `quiet`: shows only notes.
  ProgressDisplay(int fd, bool quiet);
  ~ProgressDisplay() { Clear(); }
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  // From now on shows clip `index` of `count`, with `index` clips done. The bar covers all clips, expects the later
  // ones to take as long as this one, and never goes back, even if a clip starts again. Lines of State are omitted.
  // With a count of 1 nothing changes.
  void SetPart(int index, int count);
  // Ignores an earlier step of the stage that is shown: a watch begins with the latest step, and the beginning of its
  // stage may arrive after it.
  void Show(const ProgressState& state);
  void State(absl::string_view line) {  // a whole line about the progress
    if (!quiet_ && parts_ == 1) Note(line);
  }
  void Note(absl::string_view line);       // a whole line, above the bar
  void NoteOnce(const std::string& line);  // unless it was shown before
  void Clear();                            // removes the bar
  // Shows a picture of `rows` rows above the bar, in place of the last one unless a line was written since. `sequence`
  // draws it at the cursor. Does nothing if Show draws no bar.
  void Picture(absl::string_view sequence, int rows);

 private:
  ProgressState OfAll(const ProgressState& part);
  void Write(absl::string_view text);

  const int fd_;
  const bool terminal_;
  const bool quiet_;
  int part_ = 0, parts_ = 1;
  double parts_fraction_ = 0;  // the largest fraction of all clips that was shown
  double part_seconds_ = -1;   // estimate for a whole clip; negative: unknown
  bool bar_shown_ = false;
  int picture_rows_ = 0;  // of the picture directly above the bar; 0: there is none
  std::set<std::string> noted_once_;
  ProgressState shown_;  // the last state of this clip
  std::string last_bar_;
  std::string last_stage_;
  int last_tenth_ = -1;
};

}  // namespace kinora

#endif  // KINORA_SERVER_TERMINAL_PROGRESS_DISPLAY_H_
