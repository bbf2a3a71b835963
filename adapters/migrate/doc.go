// Package holdfastmigrate lets golang-migrate migrate a database from one process at a time, whatever the
// database: also one whose driver has no lock between processes, such as ClickHouse or SQLite, and
// behind poolers such as PgBouncer in transaction mode, where locks of sessions do not work.
//
//	driver := holdfastmigrate.New(db, rlock.New(client, "migrations"), 0)
//	m, err := migrate.NewWithInstance("iofs", source, "sqlite", driver)
//
// The lock takes the place of the driver's own. Some drivers make their table of versions as soon as
// they are opened, before there is a Driver, under their own lock.
//
// # The wait, and golang-migrate's own
//
// Migrate.LockTimeout, by default 15 s, ends the wait of Up and others, and not that of the driver: a lock
// that is granted later is never unlocked. A lock that is renewed would then be held for as long as
// the process lives. So a [Driver] gives up by itself, by default after ten seconds. Keep its timeout
// below LockTimeout. Closing the Driver, which Migrate.Close does, ends a wait that is still under
// way, and gives back what was granted.
//
// # Who is told of a loss
//
// Golang-migrate has no contexts: a migration goes on after the lock is lost, and another process may
// begin to migrate. The Driver refuses to begin the next migration then, with [holdfast.ErrLost] and
// before anything is changed, and Up returns that error. If the lock was lost during the last
// migration, Unlock returns ErrLost, and Up does, although all migrations have run.
//
// So a lock that dies with the connection is the better one where there is such a thing: the driver's
// own for PostgreSQL, on a direct connection.
//
// # Not promised
//
// That a process without the Driver is kept out, nor golang-migrate's command line.
package holdfastmigrate
