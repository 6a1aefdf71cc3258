#include "server/gateway/input_fetcher.h"

#include <curl/curl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "server/common/status_details.h"
#include "server/gateway/public_address.h"

namespace kinora {
namespace {

constexpr char kUserAgent[] = "kinora-gateway";
constexpr int64_t kReceiveBytes = 128 << 10;
constexpr int kPollMilliseconds = 10'000;  // wake-ups and libcurl's timers end it earlier
constexpr absl::Duration kRetryDelay = absl::Seconds(2);

using Easy = std::unique_ptr<CURL, void (*)(CURL*)>;
using Multi = std::unique_ptr<CURLM, CURLMcode (*)(CURLM*)>;

// A file with its share of the scratch space.
struct Spooled {
  explicit Spooled(ByteBudget& budget) : space(budget) {}
  ByteBudget::Share space;
  std::unique_ptr<SpoolFile> file;
};

absl::Status Busy(std::string_view what) {
  return WithRetryInfo(absl::ResourceExhaustedError(absl::StrCat("other requests ", std::string(what))), kRetryDelay);
}

bool IsRedirect(int64_t status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// The absolute form of the field Location in a reply to a request for `base`; "": it has none.
std::string LocationOf(CURL* easy, const std::string& base) {
  curl_header* field = nullptr;
  if (curl_easy_header(easy, "Location", 0, CURLH_HEADER, -1, &field) != CURLHE_OK) return "";
  const std::unique_ptr<CURLU, void (*)(CURLU*)> url(curl_url(), curl_url_cleanup);
  KINORA_CHECK(curl_url_set(url.get(), CURLUPART_URL, base.c_str(), 0) == CURLUE_OK) << "libcurl has fetched it";
  if (curl_url_set(url.get(), CURLUPART_URL, field->value, 0) != CURLUE_OK) return "";
  curl_url_set(url.get(), CURLUPART_FRAGMENT, nullptr, 0);
  char* text = nullptr;
  if (curl_url_get(url.get(), CURLUPART_URL, &text, 0) != CURLUE_OK) return "";
  std::string location = text;
  curl_free(text);
  return location;
}

bool HasCertificate(const std::string& pem) {
  const std::unique_ptr<BIO, int (*)(BIO*)> text(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free);
  const std::unique_ptr<X509, void (*)(X509*)> first(PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr),
                                                     X509_free);
  ERR_clear_error();
  return first != nullptr;
}

std::string Reason(CURLcode code) {
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
      return "could not be fetched in time";
    case CURLE_COULDNT_RESOLVE_HOST:
      return "has a host that cannot be resolved";
    case CURLE_COULDNT_CONNECT:
      return "has a server that cannot be reached";
    case CURLE_PEER_FAILED_VERIFICATION:
      return "has a server without a valid certificate";
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
      return "could not be fetched: its server ended the connection early";
    default:
      return absl::StrCat("could not be fetched: ", curl_easy_strerror(code));
  }
}

}  // namespace

// One fetch. All but Cancel and cancelled: on the loop's thread.
class InputFetcher::Transfer : public FrontendCall {
 public:
  Transfer(std::shared_ptr<Loop> loop, const Options& options, std::string url,
           OnReply<std::shared_ptr<const SpoolFile>> on_end)
      : loop_(std::move(loop)),
        options_(options),
        deadline_(Clock::Steady().Now() + options.timeout),
        next_url_(std::move(url)),
        on_end_(std::move(on_end)),
        spooled_(std::make_shared<Spooled>(options.scratch_space)) {}

  void Cancel() override;
  bool cancelled() const { return cancelled_; }

  CURL* easy() const { return easy_.get(); }

  // Prepares easy() for next_url_. InvalidArgument: the URL is not allowed.
  absl::Status Prepare() {
    KINORA_ASSIGN_OR_RETURN(allowed_, CheckInputUrl(next_url_, options_.hosts));
    if (spooled_->file == nullptr) {
      KINORA_ASSIGN_OR_RETURN(spooled_->file, SpoolFile::Create(options_.scratch_folder));
    }
    easy_.reset(curl_easy_init());
    KINORA_CHECK(easy_ != nullptr);
    SetRules();
    SetLimits();
    return absl::OkStatus();
  }

  // The result, or Unavailable if Prepare and another attempt must follow: the server redirects.
  absl::Status OnDone(CURLcode code) {
    const int64_t status = StatusCode();
    if (IsRedirect(status)) return Redirect();
    if (status != 0 && status != 200) {
      return absl::InvalidArgumentError(absl::StrCat("has a server that answered ", status, " instead of 200"));
    }
    if (!failure_.ok()) return failure_;
    if (code == CURLE_FILESIZE_EXCEEDED) return TooLarge();
    if (code == CURLE_COULDNT_CONNECT && private_address_) {
      return absl::InvalidArgumentError(
          "has a host with an address that is not public; such hosts are fetched from only if --input-url-host has the "
          "address itself");
    }
    if (code != CURLE_OK) return absl::InvalidArgumentError(Reason(code));
    if (spooled_->file->size() == 0) return absl::InvalidArgumentError("leads to an empty file");
    spooled_->file->Finish();
    return absl::OkStatus();
  }

  void End(const absl::Status& status) {
    easy_.reset();
    const auto on_end = std::exchange(on_end_, nullptr);  // may hold this transfer
    std::shared_ptr<Spooled> spooled = std::exchange(spooled_, nullptr);
    if (!status.ok()) {
      spooled = nullptr;  // its space is free when the caller learns of the end
      return on_end(status);
    }
    const SpoolFile* file = spooled->file.get();
    on_end(std::shared_ptr<const SpoolFile>(std::move(spooled), file));
  }

 private:
  template <typename Value>
  void Set(CURLoption option, Value value) {
    const CURLcode code = curl_easy_setopt(easy_.get(), option, value);
    KINORA_CHECK(code == CURLE_OK) << option << ": " << curl_easy_strerror(code);
  }

  void SetRules() {
    Set(CURLOPT_URL, allowed_.url.text.c_str());
    Set(CURLOPT_PROTOCOLS_STR, "https");
    Set(CURLOPT_FOLLOWLOCATION, 0L);  // Redirect checks the next URL first
    Set(CURLOPT_PROXY, "");           // the addresses of a proxy's connections could not be checked
    Set(CURLOPT_FORBID_REUSE, 1L);    // each fetch checks its own address
    Set(CURLOPT_HTTP_VERSION, int64_t{CURL_HTTP_VERSION_1_1});
    Set(CURLOPT_SSLVERSION, int64_t{CURL_SSLVERSION_TLSv1_2});
    Set(CURLOPT_USERAGENT, kUserAgent);
    Set(CURLOPT_NOSIGNAL, 1L);
    Set(CURLOPT_OPENSOCKETFUNCTION, &OnSocket);
    Set(CURLOPT_OPENSOCKETDATA, this);
    Set(CURLOPT_WRITEFUNCTION, &OnBytes);
    Set(CURLOPT_WRITEDATA, this);
    if (options_.authorities.empty()) return;
    curl_blob blob = {.data = const_cast<char*>(options_.authorities.data()),
                      .len = options_.authorities.size(),
                      .flags = CURL_BLOB_NOCOPY};
    Set(CURLOPT_CAINFO_BLOB, &blob);
    Set(CURLOPT_CAPATH, static_cast<const char*>(nullptr));
  }

  void SetLimits() {
    const absl::Duration left = std::max(deadline_ - Clock::Steady().Now(), absl::Milliseconds(1));
    Set(CURLOPT_TIMEOUT_MS, absl::ToInt64Milliseconds(left));
    Set(CURLOPT_CONNECTTIMEOUT_MS, absl::ToInt64Milliseconds(options_.connect_timeout));
    Set(CURLOPT_LOW_SPEED_LIMIT, int64_t{options_.slow_bytes_per_second});
    Set(CURLOPT_LOW_SPEED_TIME, absl::ToInt64Seconds(options_.slow_time));
    Set(CURLOPT_MAXFILESIZE_LARGE, curl_off_t{options_.max_bytes});
    Set(CURLOPT_BUFFERSIZE, kReceiveBytes);
  }

  absl::Status Redirect() {
    if (redirects_++ == kMaxRedirects) {
      return absl::InvalidArgumentError(
          absl::StrCat("has a server that redirects more than ", kMaxRedirects, " times"));
    }
    next_url_ = LocationOf(easy_.get(), allowed_.url.text);
    const absl::Status next = CheckInputUrl(next_url_, options_.hosts).status();
    if (next.ok()) return absl::UnavailableError("redirected");
    return absl::InvalidArgumentError(absl::StrCat("redirects to another URL: ", std::string(next.message())));
  }

  int64_t StatusCode() const {
    long status = 0;  // NOLINT: libcurl's type
    curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
    return status;
  }

  absl::Status TooLarge() const {
    return absl::InvalidArgumentError(absl::StrCat("leads to a file of more than ", options_.max_bytes, " bytes"));
  }

  absl::Status Take(std::string_view bytes) {
    const auto count = static_cast<int64_t>(bytes.size());
    if (spooled_->file->size() + count > options_.max_bytes) return TooLarge();
    if (!spooled_->space.Grow(count)) return Busy("use all of this server's space for uploads");
    return spooled_->file->Append(bytes);
  }

  // Another result than the number of bytes ends the fetch.
  static size_t OnBytes(char* data, size_t size, size_t count, void* transfer) {
    auto& self = *static_cast<Transfer*>(transfer);
    if (self.StatusCode() != 200) return 0;
    self.failure_ = self.Take({data, size * count});
    return self.failure_.ok() ? size * count : 0;
  }

  static curl_socket_t OnSocket(void* transfer, curlsocktype, curl_sockaddr* address) {
    auto& self = *static_cast<Transfer*>(transfer);
    if (!self.allowed_.host.literal && !IsPublicAddress(address->addr)) {
      self.private_address_ = true;
      return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
  }

  const std::shared_ptr<Loop> loop_;
  const Options& options_;  // the loop's
  const absl::Time deadline_;
  std::string next_url_;
  AllowedUrl allowed_;
  OnReply<std::shared_ptr<const SpoolFile>> on_end_;
  std::shared_ptr<Spooled> spooled_;  // until the end
  Easy easy_{nullptr, curl_easy_cleanup};
  absl::Status failure_;
  bool private_address_ = false;
  int redirects_ = 0;
  std::atomic<bool> cancelled_ = false;
};

class InputFetcher::Loop {
 public:
  explicit Loop(Options options) : options_(std::move(options)), multi_(curl_multi_init(), curl_multi_cleanup) {
    KINORA_CHECK(multi_ != nullptr);
  }

  const Options& options() const { return options_; }
  void Start() {
    thread_ = std::thread([this] { Run(); });
  }
  void Wake() { curl_multi_wakeup(multi_.get()); }

  void Add(std::shared_ptr<Transfer> transfer) ABSL_LOCKS_EXCLUDED(mu_) {
    {
      absl::MutexLock lock(&mu_);
      if (!stopping_) incoming_.push_back(std::exchange(transfer, nullptr));
    }
    if (transfer != nullptr) return transfer->End(absl::CancelledError());
    Wake();
  }

  void Stop() ABSL_LOCKS_EXCLUDED(mu_) {
    {
      absl::MutexLock lock(&mu_);
      if (std::exchange(stopping_, true)) return;
    }
    Wake();
    thread_.join();
  }

 private:
  void Run() {
    while (TakeIncoming()) {
      EndCancelled();
      int count = 0;
      curl_multi_perform(multi_.get(), &count);
      while (const CURLMsg* message = curl_multi_info_read(multi_.get(), &count)) {
        if (message->msg == CURLMSG_DONE) OnDone(message->easy_handle, message->data.result);
      }
      curl_multi_poll(multi_.get(), nullptr, 0, kPollMilliseconds, nullptr);
    }
    while (!active_.empty()) Remove(active_.begin()->first)->End(absl::CancelledError());
  }

  // False: the loop is to end.
  bool TakeIncoming() ABSL_LOCKS_EXCLUDED(mu_) {
    std::vector<std::shared_ptr<Transfer>> incoming;
    bool stopping;
    {
      absl::MutexLock lock(&mu_);
      incoming.swap(incoming_);
      stopping = stopping_;
    }
    for (std::shared_ptr<Transfer>& transfer : incoming) {
      if (stopping || transfer->cancelled()) {
        transfer->End(absl::CancelledError());
      } else if (static_cast<int>(active_.size()) >= options_.max_fetches) {
        transfer->End(Busy("fetch as many URLs as this server allows at once"));
      } else {
        Activate(std::move(transfer));
      }
    }
    return !stopping;
  }

  void Activate(std::shared_ptr<Transfer> transfer) {
    const absl::Status prepared = transfer->Prepare();
    if (!prepared.ok()) return transfer->End(prepared);
    KINORA_CHECK(curl_multi_add_handle(multi_.get(), transfer->easy()) == CURLM_OK);
    active_[transfer->easy()] = std::move(transfer);
  }

  std::shared_ptr<Transfer> Remove(CURL* easy) {
    auto transfer = std::move(active_.extract(easy).mapped());
    curl_multi_remove_handle(multi_.get(), easy);
    return transfer;
  }

  void OnDone(CURL* easy, CURLcode code) {
    std::shared_ptr<Transfer> transfer = Remove(easy);
    const absl::Status status = transfer->OnDone(code);
    absl::IsUnavailable(status) ? Activate(std::move(transfer)) : transfer->End(status);
  }

  void EndCancelled() {
    std::vector<CURL*> cancelled;
    for (const auto& [easy, transfer] : active_) {
      if (transfer->cancelled()) cancelled.push_back(easy);
    }
    for (CURL* easy : cancelled) Remove(easy)->End(absl::CancelledError());
  }

  const Options options_;
  const Multi multi_;
  std::thread thread_;
  std::map<CURL*, std::shared_ptr<Transfer>> active_;  // only on thread_

  absl::Mutex mu_;
  std::vector<std::shared_ptr<Transfer>> incoming_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
};

void InputFetcher::Transfer::Cancel() {
  cancelled_ = true;
  loop_->Wake();
}

absl::StatusOr<std::unique_ptr<InputFetcher>> InputFetcher::Start(Options options) {
  if (!options.authorities.empty() && !HasCertificate(options.authorities)) {
    return absl::InvalidArgumentError("contains no certificate in PEM");
  }
  KINORA_CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
  auto loop = std::make_shared<Loop>(std::move(options));
  loop->Start();
  return std::unique_ptr<InputFetcher>(new InputFetcher(std::move(loop)));
}

InputFetcher::~InputFetcher() { Stop(); }

FrontendCallPtr InputFetcher::Fetch(const std::string& url, OnReply<std::shared_ptr<const SpoolFile>> on_end) {
  auto transfer = std::make_shared<Transfer>(loop_, loop_->options(), url, std::move(on_end));
  loop_->Add(transfer);
  return transfer;
}

void InputFetcher::Stop() { loop_->Stop(); }

}  // namespace kinora
