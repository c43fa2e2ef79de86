/*
** The file system under test, as SQLite's tests expect one to behave.
**
** The tests count syncs and open files, and make calls fail: os_unix.c does that by itself when
** it is compiled for tests (SQLITE_TEST). Any other file system has to be wrapped. In this order:
**
** 1. Every call goes on to the drive's file system, unchanged; but for the counters and the
**    failures, which are made at the same places as in os_unix.c, nothing is added.
** 2. Names are made absolute, as tests expect; a directory that does not exist cannot be opened
**    in. Paths outside of the directory of the test are SQLite's own data, and read by the native
**    file system.
** 3. The time can be set (sqlite3_current_time).
**
** Over the native file system (iocap not negative) it does one thing: it claims of the device
** what the drive promises, so that one sees what SQLite itself makes of that. An atomic group
** is then written page by page: nobody cuts the power in these tests.
*/
#include "fixture.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern int sqlite3_io_error_hit;
extern int sqlite3_io_error_hardhit;
extern int sqlite3_io_error_pending;
extern int sqlite3_io_error_persist;
extern int sqlite3_io_error_benign;
extern int sqlite3_diskfull_pending;
extern int sqlite3_diskfull;
extern int sqlite3_open_file_count;
extern int sqlite3_sync_count;
extern int sqlite3_fullsync_count;
extern int sqlite3_current_time;

typedef struct TestFile TestFile;
struct TestFile {
  sqlite3_file base;
  /* Whether calls are counted and made to fail here. */
  int drive;
  /* The next sync is that of the directory, too. */
  int dirsync;
  sqlite3_file *real;
};

static sqlite3_vfs *native;
static int claimed;
static sqlite3_vfs test_vfs;

/* Whether the call that is being made is to fail. */
static int io_error(void){
  if( (sqlite3_io_error_persist && sqlite3_io_error_hit) || sqlite3_io_error_pending-- == 1 ){
    sqlite3_io_error_hit++;
    if( !sqlite3_io_error_benign ) sqlite3_io_error_hardhit++;
    return 1;
  }
  return 0;
}

static int disk_full(void){
  if( sqlite3_diskfull_pending==1 ){
    sqlite3_io_error_hit++;
    if( !sqlite3_io_error_benign ) sqlite3_io_error_hardhit++;
    sqlite3_diskfull = 1;
    sqlite3_io_error_hit = 1;
    return 1;
  }
  if( sqlite3_diskfull_pending ) sqlite3_diskfull_pending--;
  return 0;
}

#define FILE_OF(p) ((TestFile*)(p))
#define REAL(p) (FILE_OF(p)->real)
#define CALL(p,x) (REAL(p)->pMethods->x)

static int test_close(sqlite3_file *p){
  int rc = CALL(p,xClose)(REAL(p));
  if( FILE_OF(p)->drive ) sqlite3_open_file_count--;
  return rc;
}
static int test_read(sqlite3_file *p, void *to, int n, sqlite3_int64 at){
  int rc = CALL(p,xRead)(REAL(p), to, n, at);
  if( FILE_OF(p)->drive && io_error() ) rc = SQLITE_IOERR_READ;
  return rc;
}
static int test_write(sqlite3_file *p, const void *from, int n, sqlite3_int64 at){
  int rc = CALL(p,xWrite)(REAL(p), from, n, at);
  if( FILE_OF(p)->drive ){
    if( io_error() ) rc = SQLITE_IOERR_WRITE;
    if( disk_full() ) rc = SQLITE_FULL;
  }
  return rc;
}
static int test_truncate(sqlite3_file *p, sqlite3_int64 size){
  if( FILE_OF(p)->drive && io_error() ) return SQLITE_IOERR_TRUNCATE;
  return CALL(p,xTruncate)(REAL(p), size);
}
static int test_sync(sqlite3_file *p, int flags){
  int rc;
  if( !FILE_OF(p)->drive ) return CALL(p,xSync)(REAL(p), flags);
  if( disk_full() ) return SQLITE_FULL;
  if( (flags&0x0F)==SQLITE_SYNC_FULL ) sqlite3_fullsync_count++;
  sqlite3_sync_count++;
  rc = CALL(p,xSync)(REAL(p), flags);
  if( io_error() ) rc = SQLITE_IOERR_FSYNC;
  if( rc==SQLITE_OK && FILE_OF(p)->dirsync ){
    FILE_OF(p)->dirsync = 0;
    sqlite3_sync_count++;
  }
  return rc;
}
static int test_size(sqlite3_file *p, sqlite3_int64 *size){
  int rc = CALL(p,xFileSize)(REAL(p), size);
  if( FILE_OF(p)->drive && io_error() ) rc = SQLITE_IOERR_FSTAT;
  return rc;
}
static int test_lock(sqlite3_file *p, int level){
  return CALL(p,xLock)(REAL(p), level);
}
static int test_unlock(sqlite3_file *p, int level){
  return CALL(p,xUnlock)(REAL(p), level);
}
static int test_reserved(sqlite3_file *p, int *out){
  if( FILE_OF(p)->drive && io_error() ) return SQLITE_IOERR_CHECKRESERVEDLOCK;
  return CALL(p,xCheckReservedLock)(REAL(p), out);
}
static int test_control(sqlite3_file *p, int what, void *arg){
  if( !FILE_OF(p)->drive && (claimed & SQLITE_IOCAP_BATCH_ATOMIC) && claimed>0 ){
    switch( what ){
      case SQLITE_FCNTL_BEGIN_ATOMIC_WRITE:
      case SQLITE_FCNTL_COMMIT_ATOMIC_WRITE:
      case SQLITE_FCNTL_ROLLBACK_ATOMIC_WRITE:
        return SQLITE_OK;
    }
  }
  return CALL(p,xFileControl)(REAL(p), what, arg);
}
static int test_sector(sqlite3_file *p){
  return CALL(p,xSectorSize)(REAL(p));
}
static int test_characteristics(sqlite3_file *p){
  if( !FILE_OF(p)->drive && claimed>=0 ) return claimed;
  return CALL(p,xDeviceCharacteristics)(REAL(p));
}
static int test_shm_map(sqlite3_file *p, int page, int size, int extend, void volatile **out){
  return CALL(p,xShmMap)(REAL(p), page, size, extend, out);
}
static int test_shm_lock(sqlite3_file *p, int first, int n, int flags){
  return CALL(p,xShmLock)(REAL(p), first, n, flags);
}
static void test_shm_barrier(sqlite3_file *p){
  CALL(p,xShmBarrier)(REAL(p));
}
static int test_shm_unmap(sqlite3_file *p, int gone){
  return CALL(p,xShmUnmap)(REAL(p), gone);
}

static const sqlite3_io_methods methods = {
  2, test_close, test_read, test_write, test_truncate, test_sync, test_size, test_lock,
  test_unlock, test_reserved, test_control, test_sector, test_characteristics, test_shm_map,
  test_shm_lock, test_shm_barrier, test_shm_unmap, 0, 0
};

static sqlite3_vfs *vfs_of(const char *path){
  if( fixture_drive && (path==0 || fixture_is_ours(path)) ) return fixture_drive;
  return native;
}

/* Whether the directory that a file is in exists. */
static int has_directory(const char *path){
  char dir[PATH_MAX];
  struct stat st;
  const char *end = strrchr(path, '/');
  size_t n = end ? (size_t)(end - path) : 0;
  if( n==0 || n>=sizeof(dir) ) return 1;
  memcpy(dir, path, n);
  dir[n] = 0;
  return stat(dir, &st)==0 && S_ISDIR(st.st_mode);
}

static int is_directory(const char *path){
  struct stat st;
  return stat(path, &st)==0 && S_ISDIR(st.st_mode);
}

static int vfs_full_path(sqlite3_vfs *self, const char *path, int room, char *out);

/* SQLite opens the journals that a super-journal names as they stand there. */
static const char *absolute(const char *path, char *room, int size){
  if( path==0 || path[0]=='/' || fixture_drive==0 ) return path;
  return vfs_full_path(0, path, size, room) ? path : room;
}

static int vfs_open(sqlite3_vfs *self, const char *path, sqlite3_file *p, int flags, int *out){
  TestFile *f = FILE_OF(p);
  char room[PATH_MAX];
  sqlite3_vfs *vfs = vfs_of(path = absolute(path, room, sizeof(room)));
  int rc;
  int created = 0;
  f->base.pMethods = 0;
  f->drive = vfs==fixture_drive;
  f->dirsync = 0;
  f->real = (sqlite3_file*)&f[1];
  f->real->pMethods = 0;
  if( f->drive ){
    if( path==0 && io_error() ) return SQLITE_IOERR;
    if( path && (is_directory(path) || !has_directory(path)) ) return SQLITE_CANTOPEN;
    created = (flags & SQLITE_OPEN_CREATE)
      && (flags & (SQLITE_OPEN_SUPER_JOURNAL|SQLITE_OPEN_MAIN_JOURNAL|SQLITE_OPEN_WAL));
  }
  rc = vfs->xOpen(vfs, path, f->real, flags, out);
  if( f->real->pMethods ){
    f->base.pMethods = &methods;
    if( f->drive ) sqlite3_open_file_count++;
  }
  f->dirsync = created;
  return rc;
}
static int vfs_delete(sqlite3_vfs *self, const char *path, int dirsync){
  char room[PATH_MAX];
  sqlite3_vfs *vfs = vfs_of(path = absolute(path, room, sizeof(room)));
  int rc;
  if( vfs==fixture_drive && io_error() ) return SQLITE_IOERR_DELETE;
  rc = vfs->xDelete(vfs, path, dirsync);
  if( vfs==fixture_drive && rc==SQLITE_OK && dirsync ) sqlite3_sync_count++;
  return rc;
}
static int vfs_access(sqlite3_vfs *self, const char *path, int flags, int *out){
  char room[PATH_MAX];
  sqlite3_vfs *vfs = vfs_of(path = absolute(path, room, sizeof(room)));
  if( vfs==fixture_drive && io_error() ) return SQLITE_IOERR_ACCESS;
  return vfs->xAccess(vfs, path, flags, out);
}
static int vfs_full_path(sqlite3_vfs *self, const char *path, int room, char *out){
  char buf[2*PATH_MAX];
  char *to = out;
  const char *at;
  int left = room;
  if( fixture_drive==0 ) return native->xFullPathname(native, path, room, out);
  if( path[0]=='/' ){
    if( strlen(path)>=sizeof(buf) ) return SQLITE_CANTOPEN;
    strcpy(buf, path);
  }else{
    char cwd[PATH_MAX];
    if( getcwd(cwd, sizeof(cwd))==0 || strlen(cwd)+strlen(path)+2>sizeof(buf) ){
      return SQLITE_CANTOPEN;
    }
    sqlite3_snprintf(sizeof(buf), buf, "%s/%s", cwd, path);
  }
  /* Without "." and "..", and with one "/" where there are several. */
  for(at=buf; *at; ){
    const char *end;
    int n;
    while( *at=='/' ) at++;
    end = strchr(at, '/');
    n = end ? (int)(end-at) : (int)strlen(at);
    if( n==0 || (n==1 && at[0]=='.') ){
      /* nothing */
    }else if( n==2 && at[0]=='.' && at[1]=='.' ){
      while( to>out && *--to!='/' ) left++;
      if( to>out || left<room ) left++;
    }else{
      if( left<n+2 ) return SQLITE_CANTOPEN;
      *to++ = '/';
      memcpy(to, at, n);
      to += n;
      left -= n+1;
    }
    at += n;
  }
  *to = 0;
  return SQLITE_OK;
}
static void *vfs_dlopen(sqlite3_vfs *self, const char *path){
  return native->xDlOpen(native, path);
}
static void vfs_dlerror(sqlite3_vfs *self, int n, char *out){
  native->xDlError(native, n, out);
}
static void (*vfs_dlsym(sqlite3_vfs *self, void *p, const char *name))(void){
  return native->xDlSym(native, p, name);
}
static void vfs_dlclose(sqlite3_vfs *self, void *p){
  native->xDlClose(native, p);
}
static int vfs_randomness(sqlite3_vfs *self, int n, char *out){
  /* As os_unix.c, when it is compiled for tests. */
  memset(out, 0, n);
  return n;
}
static int vfs_sleep(sqlite3_vfs *self, int micros){
  sqlite3_vfs *vfs = vfs_of(0);
  return vfs->xSleep(vfs, micros);
}
static int vfs_time_ms(sqlite3_vfs *self, sqlite3_int64 *out){
  sqlite3_vfs *vfs = vfs_of(0);
  if( sqlite3_current_time ){
    *out = 1000*(sqlite3_int64)sqlite3_current_time + 24405875*(sqlite3_int64)8640000;
    return SQLITE_OK;
  }
  return vfs->xCurrentTimeInt64(vfs, out);
}
static int vfs_time(sqlite3_vfs *self, double *out){
  sqlite3_int64 ms = 0;
  int rc = vfs_time_ms(self, &ms);
  *out = ms/86400000.0;
  return rc;
}
static int vfs_last_error(sqlite3_vfs *self, int n, char *out){
  sqlite3_vfs *vfs = vfs_of(0);
  return vfs->xGetLastError ? vfs->xGetLastError(vfs, n, out) : 0;
}

void fixture_vfs_register(sqlite3_vfs *drive, sqlite3_vfs *nat, int iocap){
  int size = nat->szOsFile;
  if( drive && drive->szOsFile>size ) size = drive->szOsFile;
  native = nat;
  claimed = iocap;
  test_vfs.iVersion = 2;
  test_vfs.szOsFile = (int)sizeof(TestFile) + size;
  test_vfs.mxPathname = drive ? drive->mxPathname : nat->mxPathname;
  test_vfs.zName = drive ? "tantalum-test" : "unix-test";
  test_vfs.xOpen = vfs_open;
  test_vfs.xDelete = vfs_delete;
  test_vfs.xAccess = vfs_access;
  test_vfs.xFullPathname = vfs_full_path;
  test_vfs.xDlOpen = vfs_dlopen;
  test_vfs.xDlError = vfs_dlerror;
  test_vfs.xDlSym = vfs_dlsym;
  test_vfs.xDlClose = vfs_dlclose;
  test_vfs.xRandomness = vfs_randomness;
  test_vfs.xSleep = vfs_sleep;
  test_vfs.xCurrentTime = vfs_time;
  test_vfs.xGetLastError = vfs_last_error;
  test_vfs.xCurrentTimeInt64 = vfs_time_ms;
  sqlite3_vfs_register(&test_vfs, 1);
}
