// Package orders keeps orders in a table; what a test of it looks like is in orders_test.go.
package orders

import (
	"time"

	"github.com/gocql/gocql"
	"gopkg.in/inf.v0"
)

// Orders of customers, newest first.
type Orders struct {
	session  *gocql.Session
	keyspace string
}

// Open makes the table where it is not there yet.
func Open(session *gocql.Session, keyspace string) (*Orders, error) {
	err := session.Query("CREATE TABLE IF NOT EXISTS " + keyspace + ".orders (customer int, day date, " +
		"total decimal, PRIMARY KEY (customer, day)) WITH CLUSTERING ORDER BY (day DESC)").Exec()
	return &Orders{session, keyspace}, err
}

// Add says whether the order is new: a customer has one a day.
func (o *Orders) Add(customer int, day time.Time, total *inf.Dec) (bool, error) {
	statement := "INSERT INTO " + o.keyspace + ".orders (customer, day, total) VALUES (?, ?, ?) IF NOT EXISTS"
	return o.session.Query(statement, customer, day, total).MapScanCAS(map[string]any{})
}

// Totals of a customer's orders.
func (o *Orders) Totals(customer int) ([]string, error) {
	rows := o.session.Query("SELECT total FROM "+o.keyspace+".orders WHERE customer = ?", customer).Iter()
	var totals []string
	var total inf.Dec
	for rows.Scan(&total) {
		totals = append(totals, total.String())
	}
	return totals, rows.Close()
}
