/*
** The start of the fixture, and files on the drive apart from SQLite.
*/
#define _GNU_SOURCE
#include "fixture.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int fixture_tclsh(int argc, char **argv);

const FixtureFiles *fixture_files = 0;
sqlite3_vfs *fixture_drive = 0;
static int claimed = -1;
static char root[PATH_MAX];

/*
** SQLite calls this at the end of each sqlite3_initialize() (SQLITE_EXTRA_INIT), which makes its
** own file system the default one.
*/
int fixture_extra_init(const char *unused){
  sqlite3_vfs *native = sqlite3_vfs_find("unix");
  if( fixture_files ){
    fixture_drive = sqlite3_vfs_find("tantalum");
    if( fixture_drive==0 ) return SQLITE_ERROR;
  }
  if( fixture_drive || claimed>=0 ) fixture_vfs_register(fixture_drive, native, claimed);
  return SQLITE_OK;
}

int fixture_main(const FixtureFiles *files, int iocap, int argc, char **argv){
  sqlite3_mutex_methods mutexes;
  if( getcwd(root, sizeof(root))==0 ) return 1;
  if( files ){
    /* As SQLite is by itself: the tests set it up in their own ways. */
    sqlite3_shutdown();
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 1);
    memset(&mutexes, 0, sizeof(mutexes));
    sqlite3_config(SQLITE_CONFIG_MUTEX, &mutexes);
    fixture_files = files;
    fixture_tclfs_register();
  }
  claimed = iocap;
  return fixture_tclsh(argc, argv);
}

int fixture_is_ours(const char *path){
  size_t n = strlen(root);
  return fixture_files && strncmp(path, root, n)==0 && (path[n]=='/' || path[n]==0);
}

sqlite3_file *fixture_open(const char *path, int flags){
  sqlite3_file *file;
  int got = 0;
  if( fixture_drive==0 && sqlite3_initialize()!=SQLITE_OK ) return 0;
  file = calloc(1, fixture_drive->szOsFile);
  if( file==0 ) return 0;
  /* A plain file: one that has no locks, no log and no groups. */
  if( fixture_drive->xOpen(fixture_drive, path, file, flags|SQLITE_OPEN_SUPER_JOURNAL, &got) ){
    free(file);
    return 0;
  }
  return file;
}

void fixture_close(sqlite3_file *file){
  file->pMethods->xClose(file);
  free(file);
}

int fixture_exists(const char *path){
  int yes = 0;
  if( fixture_drive==0 && sqlite3_initialize()!=SQLITE_OK ) return 0;
  fixture_drive->xAccess(fixture_drive, path, SQLITE_ACCESS_READWRITE, &yes);
  return yes;
}

/*
** fopen() for those parts of the fixture that look into files (hexio_read and the like).
*/
typedef struct Cookie { sqlite3_file *file; off64_t at; int append; } Cookie;

static ssize_t cookie_read(void *p, char *to, size_t n){
  Cookie *c = p;
  sqlite3_int64 size = 0;
  c->file->pMethods->xFileSize(c->file, &size);
  if( c->at>=size ) return 0;
  if( (sqlite3_int64)n>size-c->at ) n = (size_t)(size-c->at);
  if( c->file->pMethods->xRead(c->file, to, (int)n, c->at) ){ errno = EIO; return -1; }
  c->at += n;
  return (ssize_t)n;
}
static ssize_t cookie_write(void *p, const char *from, size_t n){
  Cookie *c = p;
  if( c->append ){
    sqlite3_int64 size = 0;
    c->file->pMethods->xFileSize(c->file, &size);
    c->at = size;
  }
  if( c->file->pMethods->xWrite(c->file, from, (int)n, c->at) ){ errno = EIO; return 0; }
  c->at += n;
  return (ssize_t)n;
}
static int cookie_seek(void *p, off64_t *at, int whence){
  Cookie *c = p;
  sqlite3_int64 size = 0;
  if( whence==SEEK_END ) c->file->pMethods->xFileSize(c->file, &size);
  c->at = *at + (whence==SEEK_CUR ? c->at : whence==SEEK_END ? size : 0);
  *at = c->at;
  return 0;
}
static int cookie_close(void *p){
  Cookie *c = p;
  fixture_close(c->file);
  free(c);
  return 0;
}

FILE *fixture_fopen(const char *path, const char *mode){
  cookie_io_functions_t io = { cookie_read, cookie_write, cookie_seek, cookie_close };
  char full[2*PATH_MAX];
  Cookie *c;
  sqlite3_vfs *vfs;
  int flags = SQLITE_OPEN_READWRITE;
  if( fixture_files==0 ) return fopen(path, mode);
  vfs = sqlite3_vfs_find("tantalum-test");
  if( vfs==0 || vfs->xFullPathname(vfs, path, sizeof(full), full) || !fixture_is_ours(full)
   || (!fixture_exists(full) && mode[0]=='r') ){
    return fopen(path, mode);
  }
  if( mode[0]!='r' ) flags |= SQLITE_OPEN_CREATE;
  c = calloc(1, sizeof(*c));
  c->file = fixture_open(full, flags);
  if( c->file==0 ){ free(c); errno = ENOENT; return 0; }
  c->append = mode[0]=='a';
  if( mode[0]=='w' ) c->file->pMethods->xTruncate(c->file, 0);
  return fopencookie(c, mode, io);
}
