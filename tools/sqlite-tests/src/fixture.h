/*
** What the parts of the fixture know of each other. See main.rs.
*/
#ifndef TANTALUM_FIXTURE_H
#define TANTALUM_FIXTURE_H

#include "sqlite3.h"

/* Where the files are: the functions that a sqlite3_vfs has no word for. */
typedef struct FixtureFiles FixtureFiles;
struct FixtureFiles {
  /* Calls each() for every file there is, in the order of the names. */
  void (*list)(void *arg, void (*each)(void *arg, const char *name));
  /* Gives a file another name; 0 if that was done. */
  int (*rename)(const char *from, const char *to);
};

/*
** The whole of SQLite's test fixture, with its Tcl interpreter. files is null if SQLite's own
** file system for Unix is to be tested. iocap, if it is not negative, is what that one claims of
** the device in place of the truth.
*/
int fixture_main(const FixtureFiles *files, int iocap, int argc, char **argv);

/* The directory below which all files are on the drive, and the functions for it. */
extern const FixtureFiles *fixture_files;
extern sqlite3_vfs *fixture_drive;
int fixture_is_ours(const char *path);

/* A file on the drive, apart from SQLite. */
sqlite3_file *fixture_open(const char *path, int flags);
void fixture_close(sqlite3_file *file);
int fixture_exists(const char *path);

/* vfs.c */
void fixture_vfs_register(sqlite3_vfs *drive, sqlite3_vfs *native, int iocap);
/* tclfs.c */
void fixture_tclfs_register(void);

#endif
