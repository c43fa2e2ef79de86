/*
** The files on the drive, as Tcl sees them: `file exists`, `file size`, `open`, `glob` and the
** rest, for all paths below the directory in which the fixture was started. Directories, and
** files that something else has put there, are the native ones.
*/
#include "fixture.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tcl.h>
#include <time.h>
#include <unistd.h>

static const char *path_of(Tcl_Obj *obj){
  Tcl_Obj *normal = Tcl_FSGetNormalizedPath(0, obj);
  return normal ? Tcl_GetString(normal) : "";
}

static int fs_claims(Tcl_Obj *path, ClientData *data){
  return fixture_is_ours(path_of(path)) ? TCL_OK : -1;
}

static sqlite3_int64 size_of(const char *path){
  sqlite3_int64 size = 0;
  sqlite3_file *file = fixture_open(path, SQLITE_OPEN_READONLY);
  if( file ){
    file->pMethods->xFileSize(file, &size);
    fixture_close(file);
  }
  return size;
}

static int fs_stat(Tcl_Obj *obj, Tcl_StatBuf *out){
  const char *path = path_of(obj);
  if( !fixture_exists(path) ) return stat(path, (struct stat*)out);
  memset(out, 0, sizeof(*out));
  out->st_mode = S_IFREG | 0644;
  out->st_nlink = 1;
  out->st_size = size_of(path);
  out->st_mtime = out->st_atime = out->st_ctime = time(0);
  return 0;
}

static int fs_access(Tcl_Obj *obj, int mode){
  const char *path = path_of(obj);
  if( !fixture_exists(path) ) return access(path, mode);
  if( mode & X_OK ){ errno = EACCES; return -1; }
  return 0;
}

/* An open file of Tcl's. */
typedef struct Chan Chan;
struct Chan {
  sqlite3_file *file;
  Tcl_WideInt at;
  int append;
};

static Tcl_WideInt chan_size(Chan *c){
  sqlite3_int64 size = 0;
  c->file->pMethods->xFileSize(c->file, &size);
  return size;
}
static int chan_close(ClientData data, Tcl_Interp *interp){
  Chan *c = data;
  fixture_close(c->file);
  free(c);
  return 0;
}
static int chan_close2(ClientData data, Tcl_Interp *interp, int flags){
  return flags & (TCL_CLOSE_READ|TCL_CLOSE_WRITE) ? EINVAL : chan_close(data, interp);
}
static int chan_input(ClientData data, char *to, int n, int *error){
  Chan *c = data;
  Tcl_WideInt left = chan_size(c) - c->at;
  if( left<=0 ) return 0;
  if( n>left ) n = (int)left;
  if( c->file->pMethods->xRead(c->file, to, n, c->at) ){ *error = EIO; return -1; }
  c->at += n;
  return n;
}
static int chan_output(ClientData data, const char *from, int n, int *error){
  Chan *c = data;
  int rc;
  if( c->append ) c->at = chan_size(c);
  rc = c->file->pMethods->xWrite(c->file, from, n, c->at);
  if( rc ){ *error = rc==SQLITE_FULL ? ENOSPC : EIO; return -1; }
  c->at += n;
  return n;
}
static Tcl_WideInt chan_seek_wide(ClientData data, Tcl_WideInt at, int from, int *error){
  Chan *c = data;
  if( from==SEEK_CUR ) at += c->at;
  if( from==SEEK_END ) at += chan_size(c);
  if( at<0 ){ *error = EINVAL; return -1; }
  return c->at = at;
}
static int chan_seek(ClientData data, long at, int from, int *error){
  return (int)chan_seek_wide(data, at, from, error);
}
static int chan_truncate(ClientData data, Tcl_WideInt size){
  Chan *c = data;
  Tcl_WideInt have = chan_size(c);
  if( size>have ){
    return c->file->pMethods->xWrite(c->file, "", 1, size-1) ? EIO : 0;
  }
  return c->file->pMethods->xTruncate(c->file, size) ? EIO : 0;
}
static void chan_watch(ClientData data, int mask){}
static int chan_handle(ClientData data, int direction, ClientData *out){
  return TCL_ERROR;
}
static int chan_block(ClientData data, int mode){
  return 0;
}

static const Tcl_ChannelType channel = {
  "tantalum", TCL_CHANNEL_VERSION_5, chan_close, chan_input, chan_output, chan_seek, 0, 0,
  chan_watch, chan_handle, chan_close2, chan_block, 0, 0, chan_seek_wide, 0, chan_truncate
};

static Tcl_Channel cannot_open(Tcl_Interp *interp, Tcl_Obj *obj, int why){
  Tcl_SetErrno(why);
  if( interp ){
    Tcl_SetObjResult(interp, Tcl_ObjPrintf("couldn't open \"%s\": %s", Tcl_GetString(obj),
        Tcl_PosixError(interp)));
  }
  return 0;
}

static Tcl_Channel fs_open(Tcl_Interp *interp, Tcl_Obj *obj, int mode, int permissions){
  static int number = 0;
  const char *path = path_of(obj);
  int exists = fixture_exists(path);
  int writes = (mode & (O_WRONLY|O_RDWR))!=0;
  char name[40];
  struct stat st;
  Tcl_Channel chan;
  Chan *c;
  if( !exists && stat(path, &st)==0 ){
    /* Something native is there. */
    int fd;
    if( S_ISDIR(st.st_mode) ) return cannot_open(interp, obj, EISDIR);
    fd = open(path, mode, permissions);
    if( fd<0 ) return cannot_open(interp, obj, errno);
    return Tcl_MakeFileChannel((ClientData)(intptr_t)fd,
        !writes ? TCL_READABLE : mode & O_RDWR ? TCL_READABLE|TCL_WRITABLE : TCL_WRITABLE);
  }
  if( !exists && !(mode & O_CREAT) ) return cannot_open(interp, obj, ENOENT);
  if( exists && (mode & O_CREAT) && (mode & O_EXCL) ) return cannot_open(interp, obj, EEXIST);
  if( !exists ){
    char dir[PATH_MAX];
    const char *end = strrchr(path, '/');
    sqlite3_snprintf(sizeof(dir), dir, "%.*s", (int)(end-path), path);
    if( stat(dir, &st) || !S_ISDIR(st.st_mode) ) return cannot_open(interp, obj, ENOENT);
  }
  c = calloc(1, sizeof(*c));
  c->file = fixture_open(path, SQLITE_OPEN_READWRITE | (mode & O_CREAT ? SQLITE_OPEN_CREATE : 0));
  if( c->file==0 ){
    free(c);
    return cannot_open(interp, obj, EIO);
  }
  if( mode & O_TRUNC ) c->file->pMethods->xTruncate(c->file, 0);
  c->append = (mode & O_APPEND)!=0;
  sqlite3_snprintf(sizeof(name), name, "drive%d", number++);
  chan = Tcl_CreateChannel(&channel, name, c,
      !writes ? TCL_READABLE : mode & O_RDWR ? TCL_READABLE|TCL_WRITABLE : TCL_WRITABLE);
  return chan;
}

/* What is looked for. */
typedef struct Match Match;
struct Match {
  const char *dir;
  Tcl_Obj *dir_obj;
  Tcl_Obj *result;
  Tcl_Interp *interp;
  const char *pattern;
};

static void match_name(Match *m, const char *name){
  if( name[0]=='.' && m->pattern[0]!='.' ) return;
  if( Tcl_StringMatch(name, m->pattern) ){
    Tcl_Obj *n = Tcl_NewStringObj(name, -1);
    Tcl_IncrRefCount(n);
    Tcl_ListObjAppendElement(m->interp, m->result, Tcl_FSJoinToPath(m->dir_obj, 1, &n));
    Tcl_DecrRefCount(n);
  }
}

static void match_each(void *arg, const char *path){
  Match *m = arg;
  size_t n = strlen(m->dir);
  if( strncmp(path, m->dir, n)==0 && path[n]=='/' && strchr(path+n+1, '/')==0 ){
    match_name(m, path+n+1);
  }
}

static int fs_match(Tcl_Interp *interp, Tcl_Obj *result, Tcl_Obj *obj, const char *pattern,
    Tcl_GlobTypeData *types){
  Match m;
  const char *path = path_of(obj);
  int files = types==0 || types->type==0 || (types->type & TCL_GLOB_TYPE_FILE);
  int dirs = types==0 || types->type==0 || (types->type & TCL_GLOB_TYPE_DIR);
  DIR *d;
  struct dirent *e;
  if( pattern==0 ){
    struct stat st;
    if( fixture_exists(path) ? files : stat(path, &st)==0 && (S_ISDIR(st.st_mode) ? dirs : files) ){
      Tcl_ListObjAppendElement(interp, result, obj);
    }
    return TCL_OK;
  }
  m.dir = path;
  m.dir_obj = obj;
  m.result = result;
  m.interp = interp;
  m.pattern = pattern;
  if( files ){
    fixture_exists(path);
    fixture_files->list(&m, match_each);
  }
  d = opendir(path);
  while( d && (e = readdir(d))!=0 ){
    char full[2*PATH_MAX];
    struct stat st;
    if( strcmp(e->d_name, ".")==0 || strcmp(e->d_name, "..")==0 ) continue;
    sqlite3_snprintf(sizeof(full), full, "%s/%s", path, e->d_name);
    if( fixture_exists(full) || stat(full, &st) ) continue;
    if( S_ISDIR(st.st_mode) ? dirs : files ) match_name(&m, e->d_name);
  }
  if( d ) closedir(d);
  return TCL_OK;
}

static int fs_mkdir(Tcl_Obj *obj){
  const char *path = path_of(obj);
  if( fixture_exists(path) ){ errno = EEXIST; return -1; }
  return mkdir(path, 0777);
}

/* What is in a directory. */
typedef struct Under Under;
struct Under {
  const char *dir;
  int remove;
  int count;
};

static void under_each(void *arg, const char *path){
  Under *u = arg;
  size_t n = strlen(u->dir);
  if( strncmp(path, u->dir, n)==0 && path[n]=='/' ){
    u->count++;
    if( u->remove ) fixture_drive->xDelete(fixture_drive, path, 0);
  }
}

static int remove_native(const char *path){
  DIR *d = opendir(path);
  struct dirent *e;
  while( d && (e = readdir(d))!=0 ){
    char full[2*PATH_MAX];
    struct stat st;
    if( strcmp(e->d_name, ".")==0 || strcmp(e->d_name, "..")==0 ) continue;
    sqlite3_snprintf(sizeof(full), full, "%s/%s", path, e->d_name);
    if( lstat(full, &st)==0 && S_ISDIR(st.st_mode) ) remove_native(full);
    else unlink(full);
  }
  if( d ) closedir(d);
  return rmdir(path);
}

static int fs_rmdir(Tcl_Obj *obj, int recursive, Tcl_Obj **error){
  const char *path = path_of(obj);
  Under u = { path, recursive, 0 };
  int rc;
  fixture_files->list(&u, under_each);
  if( u.count && !recursive ){
    errno = EEXIST;
    rc = -1;
  }else{
    rc = recursive ? remove_native(path) : rmdir(path);
  }
  if( rc && error ){
    *error = Tcl_NewStringObj(path, -1);
    Tcl_IncrRefCount(*error);
  }
  return rc ? TCL_ERROR : TCL_OK;
}

static int fs_delete(Tcl_Obj *obj){
  const char *path = path_of(obj);
  if( !fixture_exists(path) ) return unlink(path);
  if( fixture_drive->xDelete(fixture_drive, path, 0) ){ errno = EIO; return -1; }
  return 0;
}

static int fs_rename(Tcl_Obj *from_obj, Tcl_Obj *to_obj){
  const char *from = path_of(from_obj);
  const char *to = path_of(to_obj);
  if( !fixture_exists(from) ){
    struct stat st;
    if( stat(from, &st)==0 && S_ISDIR(st.st_mode) ) return rename(from, to);
    errno = EXDEV;
    return -1;
  }
  if( fixture_files->rename(from, to) ){ errno = EIO; return -1; }
  return 0;
}

static int fs_chdir(Tcl_Obj *obj){
  return chdir(path_of(obj));
}

static const Tcl_Filesystem filesystem = {
  "tantalum", sizeof(Tcl_Filesystem), TCL_FILESYSTEM_VERSION_1, fs_claims, 0, 0, 0, 0, 0, 0, 0,
  fs_stat, fs_access, fs_open, fs_match, 0, 0, 0, 0, 0, 0, fs_mkdir, fs_rmdir, fs_delete, 0,
  fs_rename, 0, fs_stat, 0, 0, fs_chdir
};

void fixture_tclfs_register(void){
  Tcl_FSRegister(0, &filesystem);
}
