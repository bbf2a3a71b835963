// Package holdfastgoose lets goose migrate a database from one process at a time, whatever the
// database: also one for which goose has no lock, such as SQLite or ClickHouse, and behind poolers
// such as PgBouncer in transaction mode, where locks of sessions do not work.
//
//	locker := holdfastgoose.New(rlock.New(client, "migrations"))
//	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations, goose.WithLocker(locker))
//
// Each operation of a provider that migrates waits for the lock, by default for five minutes, as
// goose's own lockers do, and then fails with [holdfast.ErrNotAcquired]. Up and UpByOne look first,
// without the lock, whether there is anything to do.
//
// # Who is told of a loss
//
// Goose has no place for the context of the hold: a migration goes on after the lock is lost, and
// another process may begin to migrate. Unlock then returns [holdfast.ErrLost], and that is the only
// sign. Up returns it beside its results. Down and other operations return it instead of their
// result, although the migration has run: see what goose says of the database's version.
//
// So a lock that dies with the connection is the better one where there is such a thing: goose's own
// for PostgreSQL, on a direct connection. Migrations in transactions that fail on a second run, as
// goose's own table of versions makes most of them, are safe with either.
//
// # Not promised
//
// That a provider without the Locker is kept out, nor goose's command line, which has no such option.
package holdfastgoose
