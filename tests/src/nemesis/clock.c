/* A movable wall clock for a single process, to be preloaded. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t nothing = 0;
static const int64_t *offset = &nothing; /* microseconds */
static int (*wait_until)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

__attribute__((constructor)) static void start(void) {
  *(void **)&wait_until = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
  const char *path = getenv("NEMESIS_CLOCK_FILE");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (page != MAP_FAILED) offset = page;
}

static void move(struct timespec *time, int64_t micros) {
  int64_t nanos = time->tv_nsec + micros % 1000000 * 1000;
  time->tv_sec += micros / 1000000 + (nanos >= 1000000000) - (nanos < 0);
  time->tv_nsec = (nanos + 1000000000) % 1000000000;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  if (syscall(SYS_clock_gettime, clock, time)) return -1;
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) move(time, *(volatile const int64_t *)offset);
  return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  (void)zone;
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *seconds) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (seconds) *seconds = now.tv_sec;
  return now.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
  struct timespec real = *until;
  if (until->tv_sec > 1000000000) move(&real, -*(volatile const int64_t *)offset); /* else the monotonic clock */
  return wait_until(condition, mutex, &real);
}
