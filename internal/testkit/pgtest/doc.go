// Package pgtest starts real PostgreSQL servers for tests, as redistest does with Redis. It uses the programs of PostgreSQL's
// packages and no driver. Where there is no PostgreSQL, tests are skipped loudly; where CI=true they fail instead.
package pgtest
