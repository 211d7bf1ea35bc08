// Three functions of the C library, for the whole program. libzmq's calls come here, because a
// program's own definition precedes the library's; so do those of other libraries, which pass.
#undef _FORTIFY_SOURCE  // would make recv() a macro or an inline function
#include <cerrno>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared/transport/tcp_gate.h"

using downpour::transport::TcpGate;

extern "C" {

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
  errno = ECONNABORTED;  // as if the peer had left: the listener waits for the next one
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
  return int(::syscall(SYS_close, fd));
}

}  // extern "C"
