// ForkMark: tells an object whether this process was forked since the object was made.
//
//   ForkMark made_here;                         // a member of an object that belongs to one process
//   made_here.refuse_in_child(rank);            // in a forked child: ConfigError; otherwise nothing
//   if (made_here.in_child()) keep_forever(std::move(parts_));
//
// A child process has copies of all objects, but none of the threads, and no part in the run. A message from it would
// be taken for the parent's. Objects that the child itself makes work there (docs/decisions/0085). Local; thread-safe.
#pragma once

#include <memory>

namespace zero {

class ForkMark {
 public:
  ForkMark();

  bool in_child() const;
  // Throws ConfigError in a child. `rank`: the rank that the parent process is; negative: unknown.
  void refuse_in_child(int rank = -1) const {
    if (in_child()) [[unlikely]]
      throw_in_child(rank);
  }

 private:
  [[noreturn]] static void throw_in_child(int rank);

  int num_forks_;  // forks between the first process of the program and the one that made the object
};

namespace detail {
void keep_forever(void* object);
}

// Never destroys `object`: a destructor would wait for threads that do not exist in this child, or change memory it
// shares with the parent.
template <typename T>
void keep_forever(std::unique_ptr<T> object) {
  detail::keep_forever(object.release());
}

}  // namespace zero
