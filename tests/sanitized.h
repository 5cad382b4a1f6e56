// Whether this test program runs under a sanitizer: malloc is its own then, and shadow memory grows with what is
// touched.
#pragma once

namespace zero {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

}  // namespace zero
