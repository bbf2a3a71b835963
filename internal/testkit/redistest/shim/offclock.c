// offclock: preloaded into a server, adds an offset to its wall clock. Other clocks stay as they are, as they would when
// somebody sets the time of a machine: timeouts of the event loop must not jump.
//
// The offset is 8 bytes of nanoseconds in the file that OFFCLOCK_FILE names. They are mapped, so that a test moves the
// clock by writing to the file. There is no malloc and no dlsym in here: jemalloc asks for the time while it starts.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static int64_t none;
static volatile const int64_t *offset = &none;

__attribute__((constructor)) static void map_offset(void) {
  const char *name = getenv("OFFCLOCK_FILE");
  int fd = name ? open(name, O_RDONLY) : -1;
  if (fd < 0) return;
  void *page = mmap(0, sizeof none, PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (page != MAP_FAILED) offset = page;
}

int clock_gettime(clockid_t id, struct timespec *ts) {
  long failed = syscall(SYS_clock_gettime, id, ts);
  if (failed) return (int)failed;
  if (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE) return 0;
  int64_t ns = ts->tv_sec * SECOND + ts->tv_nsec + *offset; // fits until the year 2262
  ts->tv_sec = ns / SECOND;
  ts->tv_nsec = ns % SECOND;
  return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
  struct timespec ts;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &ts);
  if (tv) {
    tv->tv_sec = ts.tv_sec;
    tv->tv_usec = ts.tv_nsec / 1000;
  }
  return 0;
}

time_t time(time_t *t) {
  struct timespec ts;
  clock_gettime(CLOCK_REALTIME, &ts);
  if (t) *t = ts.tv_sec;
  return ts.tv_sec;
}
