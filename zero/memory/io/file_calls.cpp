#include "zero/memory/io/file_calls.h"

#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "zero/base/error/log.h"

namespace zero {
namespace {

// Turns -1 and errno into a negative errno value.
template <typename Result>
Result or_error(Result result) {
  return result < 0 ? -errno : result;
}

template <typename Call>
int uninterrupted(Call call) {
  int result;
  do result = or_error(call());
  while (result == -EINTR);
  return result;
}

int open_beneath(int folder, const char* name, int flags) {
  struct open_how how {};
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
  how.mode = (flags & O_CREAT) != 0 ? 0600 : 0;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  return uninterrupted([&] { return static_cast<int>(::syscall(SYS_openat2, folder, name, &how, sizeof how)); });
}

// Linux before 5.6 has no openat2(), and some containers forbid it.
bool has_openat2() {
  static const bool has = [] {
    const int fd = open_beneath(AT_FDCWD, ".", O_PATH);
    if (fd >= 0) return ::close(fd), true;
    if (fd != -ENOSYS && fd != -EPERM) return true;
    ZERO_LOG(info, "this kernel has no openat2(): files of a checkpoint are opened by checked names instead");
    return false;
  }();
  return has;
}

}  // namespace

const FileCalls& FileCalls::kernel() {
  static const FileCalls calls;
  return calls;
}

int FileCalls::try_folder(const std::string& folder) const {
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0) return -errno;
  if (!S_ISDIR(info.st_mode)) return -ENOTDIR;
  return or_error(::access(folder.c_str(), W_OK | X_OK));
}

int FileCalls::find_room(const std::string& folder, Room& room) const {
  struct stat info {};
  struct statvfs system {};
  if (::stat(folder.c_str(), &info) != 0) return -errno;
  if (const int result = uninterrupted([&] { return ::statvfs(folder.c_str(), &system); }); result < 0) return result;
  room = {info.st_dev, static_cast<std::int64_t>(system.f_bavail * system.f_frsize)};
  return 0;
}

int FileCalls::open(const std::string& path, int flags) const {
  return uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0600); });
}

int FileCalls::open_in(int folder, const std::string& name, int flags) const {
  return has_openat2() ? open_beneath(folder, name.c_str(), flags) : open_checked(folder, name, flags);
}

int FileCalls::open_checked(int folder, const std::string& name, int flags) {
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos) return -EXDEV;
  return uninterrupted([&] { return ::openat(folder, name.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600); });
}

int FileCalls::unlink(const std::string& path) const {
  return or_error(::unlink(path.c_str()));
}

int FileCalls::is_in_memory(int fd) const {
  struct statfs info {};
  const int result = uninterrupted([&] { return ::fstatfs(fd, &info); });
  if (result < 0) return result;
  return info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC ? 1 : 0;
}

int FileCalls::preallocate(int fd, std::int64_t bytes) const {
  return uninterrupted([&] { return ::fallocate(fd, 0, 0, bytes); });
}

int FileCalls::resize(int fd, std::int64_t bytes) const {
  return uninterrupted([&] { return ::ftruncate(fd, bytes); });
}

int FileCalls::set_direct(int fd, bool direct) const {
  const int flags = or_error(::fcntl(fd, F_GETFL));
  return flags < 0 ? flags : or_error(::fcntl(fd, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT));
}

int FileCalls::duplicate(int fd) const {
  return or_error(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
}

int FileCalls::sync(int fd) const {
  return or_error(::fsync(fd));
}

int FileCalls::make_folder(const std::string& path) const {
  return or_error(::mkdir(path.c_str(), 0700));
}

int FileCalls::remove_folder(const std::string& path) const {
  return or_error(::rmdir(path.c_str()));
}

int FileCalls::rename(const std::string& from, const std::string& to) const {
  return or_error(::rename(from.c_str(), to.c_str()));
}

int FileCalls::exchange(const std::string& one, const std::string& other) const {
  return or_error(::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE));
}

ssize_t FileCalls::read(int fd, std::span<std::byte> into, std::int64_t offset) const {
  return or_error(::pread(fd, into.data(), into.size(), offset));
}

ssize_t FileCalls::write(int fd, std::span<const std::byte> from, std::int64_t offset) const {
  return or_error(::pwrite(fd, from.data(), from.size(), offset));
}

}  // namespace zero
