#include "tests/testing/forked_ranks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/check.h"

namespace kinora {
namespace {

// What the ranks tell each other, in memory that they share.
struct Board {
  struct Entry {
    int rank, bytes;
    char key[64], value[1024];
  };
  pthread_mutex_t mutex;  // of what follows; one who dies with it does not keep it
  std::atomic<uint32_t> changes;
  bool ended;
  char why[256];
  int entries;
  Entry entry[256];
};

class BoardLock {
 public:
  explicit BoardLock(Board& board) : board_(board) {
    if (pthread_mutex_lock(&board.mutex) == EOWNERDEAD) pthread_mutex_consistent(&board.mutex);
  }
  ~BoardLock() { pthread_mutex_unlock(&board_.mutex); }
  BoardLock(const BoardLock&) = delete;
  BoardLock& operator=(const BoardLock&) = delete;

 private:
  Board& board_;
};

Board* MakeBoard() {
  auto* const board =
      static_cast<Board*>(mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  KINORA_CHECK(board != MAP_FAILED);
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&board->mutex, &attributes);
  return board;
}

void Changed(Board& board) {
  ++board.changes;
  syscall(SYS_futex, &board.changes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void EndBoard(Board& board, const std::string& why) {
  {
    const BoardLock lock(board);
    if (board.ended) return;
    board.ended = true;
    std::snprintf(board.why, sizeof board.why, "%s", why.c_str());
  }
  Changed(board);
}

class BoardRendezvous : public Rendezvous {
 public:
  BoardRendezvous(Board& board, int rank) : board_(board), rank_(rank) {}

  void Publish(const std::string& key, const std::string& value) override {
    {
      const BoardLock lock(board_);
      KINORA_CHECK(board_.entries < 256 && key.size() < sizeof(Board::Entry::key)) << key;
      Board::Entry& entry = board_.entry[board_.entries++];
      entry.rank = rank_;
      entry.bytes = static_cast<int>(std::min(value.size(), sizeof entry.value));
      std::memcpy(entry.key, key.c_str(), key.size() + 1);
      std::memcpy(entry.value, value.data(), entry.bytes);
    }
    Changed(board_);
  }

  absl::StatusOr<std::string> Await(int rank, const std::string& key, absl::Duration patience) override {
    const absl::Time deadline = absl::Now() + patience;
    while (true) {
      const uint32_t seen = board_.changes;
      {
        const BoardLock lock(board_);
        for (int i = 0; i < board_.entries; ++i) {
          const Board::Entry& entry = board_.entry[i];
          if (entry.rank == rank && key == entry.key) return std::string(entry.value, entry.bytes);
        }
        if (board_.ended) return absl::UnavailableError(board_.why);
      }
      const absl::Duration left = deadline - absl::Now();
      if (left <= absl::ZeroDuration()) return absl::DeadlineExceededError(absl::StrCat("rank ", rank, ": ", key));
      const timespec wait = absl::ToTimespec(std::min(left, absl::Milliseconds(100)));
      syscall(SYS_futex, &board_.changes, FUTEX_WAIT, seen, &wait, nullptr, 0);
    }
  }

 private:
  Board& board_;
  const int rank_;
};

struct Child {
  pid_t pid = -1;
  std::FILE* out = nullptr;  // a file without a name: its answer
  bool ended = false;
  absl::StatusOr<std::string> result = absl::UnknownError("no answer");
};

[[noreturn]] void BeRank(int rank, Board& board, const ForkedBody& body, std::FILE* out) {
  alarm(480);
  BoardRendezvous rendezvous(board, rank);
  absl::StatusOr<std::string> result = body(rank, rendezvous);
  if (testing::Test::HasFailure()) result = absl::InternalError("an expectation of this rank failed");
  const int32_t code = static_cast<int32_t>(result.status().code());
  const std::string text = result.ok() ? *result : std::string(result.status().message());
  std::fwrite(&code, sizeof code, 1, out);
  std::fwrite(text.data(), 1, text.size(), out);
  std::fflush(nullptr);
  _exit(0);  // the parent's objects are the parent's to end
}

absl::StatusOr<std::string> Answer(std::FILE* out) {
  std::rewind(out);
  int32_t code = 0;
  std::string text;
  if (std::fread(&code, sizeof code, 1, out) != 1) return absl::UnknownError("a rank ended without an answer");
  char some[4096];
  while (const size_t n = std::fread(some, 1, sizeof some, out)) text.append(some, n);
  if (code == 0) return text;
  return absl::Status(static_cast<absl::StatusCode>(code), text);
}

void Ended(Board& board, Child& child, int rank, int status) {
  if (WIFSTOPPED(status)) {
    EndBoard(board, absl::StrCat("rank ", rank, " stalls"));
    kill(child.pid, SIGKILL);
    return;  // it is seen again, killed
  }
  child.ended = true;
  if (WIFSIGNALED(status)) {
    child.result = absl::UnavailableError(absl::StrCat("rank ", rank, " was ended by signal ", WTERMSIG(status)));
    EndBoard(board, std::string(child.result.status().message()));
  } else {
    child.result = Answer(child.out);
  }
}

}  // namespace

std::vector<absl::StatusOr<std::string>> RunForked(int ranks, const ForkedBody& body) {
  Board* const board = MakeBoard();
  std::vector<Child> children(ranks);
  std::fflush(nullptr);
  for (int rank = 0; rank < ranks; ++rank) {
    children[rank].out = std::tmpfile();
    children[rank].pid = fork();
    KINORA_CHECK(children[rank].pid >= 0 && children[rank].out != nullptr);
    if (children[rank].pid == 0) BeRank(rank, *board, body, children[rank].out);
  }
  for (int left = ranks; left > 0;) {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, WUNTRACED);
    const auto child = std::find_if(children.begin(), children.end(), [pid](const Child& c) { return c.pid == pid; });
    if (child == children.end()) continue;  // of somebody else
    Ended(*board, *child, static_cast<int>(child - children.begin()), status);
    if (child->ended) --left;
  }
  std::vector<absl::StatusOr<std::string>> results;
  for (Child& child : children) {
    std::fclose(child.out);
    results.push_back(std::move(child.result));
  }
  munmap(board, sizeof(Board));
  return results;
}

}  // namespace kinora
