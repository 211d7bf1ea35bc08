// Replaces three functions of the C library for the whole program. libzmq calls them, because a
// definition in the program precedes that in the library. So do other libraries, whose calls are
// passed on.
#undef _FORTIFY_SOURCE  // prevents recv() from being a macro or an inline function
#include <cerrno>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared/transport/tcp_gate.h"

using downpour::transport::TcpGate;

extern "C" {

#if defined(__SANITIZE_THREAD__)
// TSan's own replacement of close(). It must see each call; otherwise it takes a number that is
// used again for the earlier descriptor, and reports a race between their users.
int __interceptor_close(int fd);  // NOLINT(bugprone-reserved-identifier)
#endif

int accept4(int fd, sockaddr* address, socklen_t* size, int flags) {
  const int accepted = int(::syscall(SYS_accept4, fd, address, size, flags));
  if (!TcpGate::knows(fd)) return accepted;
  if (accepted < 0) {
    const int error_number = errno;
    if (error_number == EMFILE || error_number == ENFILE) TcpGate::instance().on_no_descriptor(fd);
    errno = error_number;
    return -1;
  }
  if (TcpGate::instance().on_accepted(fd, accepted)) return accepted;
  ::syscall(SYS_close, accepted);
  // as if the peer had left, so that the listener waits for the next connection
  errno = ECONNABORTED;
  return -1;
}

ssize_t recv(int fd, void* buffer, size_t bytes, int flags) {
  const ssize_t got = ::recvfrom(fd, buffer, bytes, flags, nullptr, nullptr);
  if (got <= 0 || (flags & MSG_PEEK) != 0 || !TcpGate::knows(fd)) return got;
  if (TcpGate::instance().on_received(fd, {static_cast<const uint8_t*>(buffer), size_t(got)}))
    return got;
  errno = ECONNRESET;
  return -1;
}

int close(int fd) {
  if (TcpGate::knows(fd)) TcpGate::instance().on_close(fd);
#if defined(__SANITIZE_THREAD__)
  return __interceptor_close(fd);
#else
  return int(::syscall(SYS_close, fd));
#endif
}

}  // extern "C"
