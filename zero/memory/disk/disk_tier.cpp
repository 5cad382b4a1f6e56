#include "zero/memory/disk/disk_tier.h"

#include <cerrno>
#include <optional>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/error/log.h"
#include "zero/base/process/clock.h"
#include "zero/base/text/bytes.h"
#include "zero/memory/disk/disk_requests.h"
#include "zero/memory/disk/disk_seam.h"
#include "zero/memory/disk/page_sums.h"
#include "zero/memory/io/scratch_file.h"
#include "zero/memory/io/thread_queue.h"
#include "zero/memory/io/uring_queue.h"

namespace zero {
namespace {

constexpr std::int64_t kPage = DiskTier::kPageBytes;
constexpr std::int64_t kStripe = DiskTier::kStripeBytes;

std::int64_t up_to(std::int64_t bytes, std::int64_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

void require_usable(const DiskOptions& options) {
  if (options.paths.empty())
    throw ConfigError("zero.disk", "[]", "no folder was given", "Name at least one folder on a disk.");
  if (options.bytes <= 0)
    throw ConfigError("zero.disk_memory", format_bytes(options.bytes), "is not a size",
                      "Give at least one page, 4 KiB.");
  ZERO_CHECK(options.queue_depth > 0, "a queue of depth {}", options.queue_depth);
}

// File i gets the stripes i, i + paths, i + 2 paths ...
std::vector<ScratchSize> sizes_of(const DiskOptions& options) {
  const auto num_files = static_cast<std::int64_t>(options.paths.size());
  const std::int64_t num_stripes = up_to(options.bytes, kStripe) / kStripe;
  std::vector<ScratchSize> sizes;
  for (std::int64_t i = 0; i < num_files; ++i)
    sizes.push_back(
        {options.paths[static_cast<std::size_t>(i)], (num_stripes - i + num_files - 1) / num_files * kStripe});
  // A file has at least one stripe, even if there are more folders than stripes.
  for (auto& size : sizes) size.bytes = std::max(size.bytes, kStripe);
  return sizes;
}

std::vector<ScratchFile> make_files(const DiskOptions& options, const FileCalls& calls) {
  const auto sizes = sizes_of(options);
  require_room(sizes, calls);
  std::vector<ScratchFile> files;
  for (const auto& [folder, bytes] : sizes) files.emplace_back(folder, bytes, calls);
  return files;
}

std::string limit_of_locked_memory(int error) {
  return error == ENOMEM ? "; `ulimit -l` limits locked memory" : "";
}

std::unique_ptr<IoQueue> make_queue(const DiskOptions& options, std::span<const ScratchFile> files,
                                    const DiskSeam& seam) {
  std::vector<int> descriptors;
  for (const ScratchFile& file : files) descriptors.push_back(file.get());
  if (seam.make_queue) return seam.make_queue(descriptors, options.queue_depth);
  if (options.engine != DiskEngine::kThreads) {
    UringOpening opening = open_uring_queue(descriptors, options.queue_depth, *seam.uring);
    if (opening.queue) return std::move(opening.queue);
    const std::string reason = std::strerror(opening.error) + limit_of_locked_memory(opening.error);
    if (options.engine == DiskEngine::kUring)
      throw ConfigError("zero.disk", "io_uring", fmt::format("is refused here: {}", reason),
                        "Use threads; `zero doctor` says what allows io_uring.");
    if (say_once("io_uring is refused"))
      ZERO_LOG(warn, "io_uring is refused here ({}): threads read and write {}", reason, options.paths.front());
  }
  return std::make_unique<ThreadQueue>(descriptors, options.queue_depth, *seam.files);
}

}  // namespace

struct DiskTier::Implementation {
  Implementation(const DiskOptions& options, const DiskSeam& seam);

  Transfer move(IoOperation operation, std::int64_t place, std::span<std::byte> block, int unit);
  void require_reserved(std::int64_t place, std::span<const std::byte> block) const;
  std::optional<IoError> inspect(const DiskRequest& request) const;

  std::int64_t capacity;
  std::vector<std::int64_t> ends{};  // ends of the reserved places, ascending
  std::vector<ScratchFile> files;
  std::optional<PageSums> sums{};
  mutable DiskTraffic traffic{};
  Timeline* timeline;
  bool registered = false;  // whether any memory is registered
  DiskRequests requests;    // last: its destructor waits for requests, which need the other members
};

namespace {

// One call of read() or write(). If it has no requests under way, it does not access the tier, which may be destroyed.
class MovingBlock final : public Transfer::Pending {
 public:
  MovingBlock(DiskRequests& requests, DiskTraffic& traffic, Timeline* timeline, int unit)
      : requests_(requests), traffic_(traffic), timeline_(timeline), unit_(unit) {}

  void start(const DiskRequest& request) {
    if (requests_.full()) wait([this] { requests_.make_room(); });
    requests_.start(request, account_);
  }
  bool failed() const { return account_.error.has_value(); }

  void finish() override {
    if (account_.open > 0) wait([this] { requests_.wait(account_); });
    if (account_.error) throw IoError(*account_.error);
  }

  bool poll() override {
    if (account_.open > 0) requests_.poll();
    return account_.open == 0;
  }

 private:
  template <typename Wait>
  void wait(Wait wait) {
    const TimedSpan waiting(timeline_, Activity::kWaitDisk, unit_);
    const double begin = monotonic_seconds();
    wait();
    traffic_.waited_seconds += monotonic_seconds() - begin;
  }

  DiskRequests& requests_;
  DiskTraffic& traffic_;
  Timeline* timeline_;
  int unit_;
  DiskRequests::Account account_;
};

}  // namespace

DiskTier::Implementation::Implementation(const DiskOptions& options, const DiskSeam& seam)
    : capacity(up_to(options.bytes, kPage)),
      files(make_files(options, seam.opening_calls(options.timeout))),
      timeline(options.timeline),
      requests(make_queue(options, files, seam),
               {.folders = options.paths,
                .depth = options.queue_depth,
                .timeout = options.timeout,
                .inspect = [this](const DiskRequest& request) { return inspect(request); },
                .timeline = options.timeline}) {
  if (options.checksums) sums.emplace(capacity);
}

void DiskTier::Implementation::require_reserved(std::int64_t place, std::span<const std::byte> block) const {
  const auto bytes = static_cast<std::int64_t>(block.size());
  ZERO_CHECK(place >= 0 && place % kPage == 0 && bytes % kPage == 0, "{} bytes at {} are not whole pages", bytes,
             place);
  ZERO_CHECK(reinterpret_cast<std::uintptr_t>(block.data()) % kPage == 0, "memory does not begin on a page");
  const auto end = std::upper_bound(ends.begin(), ends.end(), place);  // end of the place that it begins in
  ZERO_CHECK(end != ends.end() && place + bytes <= *end, "{} bytes at {} are outside every reserved place", bytes,
             place);
}

Transfer DiskTier::Implementation::move(IoOperation operation, std::int64_t place, std::span<std::byte> block,
                                        int unit) {
  if (block.empty()) return {};
  require_reserved(place, block);
  auto pending = std::make_unique<MovingBlock>(requests, traffic, timeline, unit);
  MovingBlock& moving = *pending;
  Transfer transfer(std::move(pending));  // from here on it is finished, whatever is thrown
  const auto num_files = static_cast<std::int64_t>(files.size());
  while (!block.empty() && !moving.failed()) {
    const std::int64_t stripe = place / kStripe;
    const std::int64_t within = place % kStripe;
    const std::int64_t left = num_files == 1 ? kStripe : kStripe - within;  // a single file has no stripes
    const auto bytes = std::min(block.size(), static_cast<std::size_t>(left));
    const auto piece = block.first(bytes);
    if (sums && operation == IoOperation::kWrite) sums->note(place, piece);
    moving.start({.operation = operation,
                  .file = static_cast<int>(stripe % num_files),
                  .offset = stripe / num_files * kStripe + within,
                  .memory = piece,
                  .place = place,
                  .unit = unit});
    block = block.subspan(bytes);
    place += static_cast<std::int64_t>(bytes);
  }
  return transfer;
}

std::optional<IoError> DiskTier::Implementation::inspect(const DiskRequest& request) const {
  if (!sums || request.operation == IoOperation::kWrite) return std::nullopt;
  const std::int64_t wrong = sums->first_wrong(request.place, request.memory);
  if (wrong < 0) return std::nullopt;
  return requests.error_of(
      request, 0,
      fmt::format("the page at {} differs from the page written there: the disk or the transfer damaged it",
                  format_count(request.offset + wrong - request.place)));
}

DiskTier::DiskTier(const DiskOptions& options) : DiskTier(options, DiskSeam{}) {}

DiskTier::DiskTier(const DiskOptions& options, const DiskSeam& seam) {
  require_usable(options);
  implementation_ = std::make_unique<Implementation>(options, seam);
}

DiskTier::~DiskTier() = default;

void DiskTier::require_room(const DiskOptions& options, int ranks, const DiskSeam& seam) {
  require_usable(options);
  zero::require_room(sizes_of(options), seam.opening_calls(options.timeout), ranks);
}

std::int64_t DiskTier::reserve(std::int64_t bytes) {
  ZERO_CHECK(bytes >= 0, "a place of {} bytes", bytes);
  const std::int64_t begin = reserved_bytes();
  const std::int64_t free = capacity_bytes() - begin;
  if (bytes > free)
    throw ConfigError(
        "zero.disk_memory", format_bytes(capacity_bytes()),
        fmt::format("{} of it are taken, and {} more are needed", format_bytes(begin), format_bytes(bytes)),
        fmt::format("Give at least {} B ({}).", begin + up_to(bytes, kPage),
                    format_bytes(begin + up_to(bytes, kPage))));
  if (bytes > 0) implementation_->ends.push_back(begin + up_to(bytes, kPage));
  return begin;
}

Transfer DiskTier::read(std::int64_t offset, std::span<std::byte> into, int unit) {
  return implementation_->move(IoOperation::kRead, offset, into, unit);
}

Transfer DiskTier::write(std::int64_t offset, std::span<const std::byte> from, int unit) {
  return implementation_->move(IoOperation::kWrite, offset, {const_cast<std::byte*>(from.data()), from.size()}, unit);
}

bool DiskTier::register_memory(std::span<std::byte> memory) {
  const int error = implementation_->requests.queue().register_memory(memory);
  if (error == 0) implementation_->registered = true;
  if (error != 0 && error != ENOTSUP && say_once("io_uring does not lock memory"))
    ZERO_LOG(warn, "io_uring does not lock {} of memory ({}{}): it finds pages again at each request",
             format_bytes(static_cast<std::int64_t>(memory.size())), std::strerror(error),
             limit_of_locked_memory(error));
  return error == 0;
}

void DiskTier::forget_memory(std::span<std::byte> memory) {
  implementation_->requests.queue().forget_memory(memory);
}

std::int64_t DiskTier::capacity_bytes() const {
  return implementation_->capacity;
}

std::int64_t DiskTier::reserved_bytes() const {
  return implementation_->ends.empty() ? 0 : implementation_->ends.back();
}

const DiskTraffic& DiskTier::traffic() const {
  DiskTraffic& traffic = implementation_->traffic;
  traffic.read_bytes = implementation_->requests.read_bytes();
  traffic.written_bytes = implementation_->requests.written_bytes();
  traffic.busy_seconds = implementation_->requests.busy_seconds();
  return traffic;
}

std::string DiskTier::describe() const {
  const auto& files = implementation_->files;
  const auto num_direct = std::count_if(files.begin(), files.end(), [](const auto& file) { return file.direct(); });
  const auto num_files = static_cast<std::ptrdiff_t>(files.size());
  return fmt::format("{}, {}{}, {}", implementation_->requests.queue().name(),
                     num_direct == num_files ? "O_DIRECT"
                     : num_direct == 0       ? "buffered"
                                             : fmt::format("O_DIRECT on {}", num_direct),
                     implementation_->registered ? ", registered buffers" : "", format_count(num_files, "path"));
}

}  // namespace zero
