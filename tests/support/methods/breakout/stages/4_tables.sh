#!/bin/sh
echo "4_tables"
